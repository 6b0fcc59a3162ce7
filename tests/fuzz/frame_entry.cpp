#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "proto/frame.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

struct Frames {
  std::vector<std::string> bodies;
  bool dropped = false;  ///< the peer announced more than a frame may have
  friend bool operator==(const Frames&, const Frames&) = default;
};

Frames received(std::string_view bytes, std::size_t piece) {
  proto::FrameParser parser;
  Frames frames;
  while (!bytes.empty() && !frames.dropped) {
    parser.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const auto next = parser.next_view();
      frames.dropped = !next.has_value();
      if (!next || !*next) break;
      frames.bodies.emplace_back(**next);
    }
  }
  return frames;
}

void check_hello(const std::string& body) {
  const auto hello = proto::decode_hello(body);
  if (!hello) return;
  DDPRUN_ASSERT(proto::decode_hello(proto::encode_hello(*hello)).has_value(),
                "what is written can be read");
  proto::Hello ours;
  ours.kind = hello->kind;
  ours.version_min = 1;
  ours.version_max = 3;
  const auto version = proto::agree_on_version(ours, *hello);
  DDPRUN_ASSERT(!version || (*version >= 1 && *version <= 3 && *version >= hello->version_min &&
                             *version <= hello->version_max),
                "both sides know the version that they agree on");
}

}  // namespace

void fuzz_frame(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return;
  const std::size_t piece = 1 + data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Frames whole = received(bytes, bytes.size() + 1);
  DDPRUN_ASSERT(whole == received(bytes, piece), "cuts change nothing");
  std::string again;
  for (const std::string& body : whole.bodies) {
    again += proto::encode_frame(body);
    check_hello(body);
  }
  DDPRUN_ASSERT(bytes.starts_with(again), "frames are written as they were read");
  check_hello(std::string(bytes));  // most inputs are no whole frame
}

}  // namespace ddprun::test
