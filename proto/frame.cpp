#include "proto/frame.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "proto/error.hpp"

namespace ddprun::proto {

std::string encode_frame(std::string_view body) {
  DDPRUN_ASSERT(body.size() <= kFrameBytesMax, "callers keep frames below the limit");
  const auto length = static_cast<std::uint32_t>(body.size());
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>(length >> shift & 0xff));
  frame.append(body);
  return frame;
}

Result<std::optional<std::string>> FrameParser::next() {
  if (buffer_.size() < kFrameHeaderBytes) return std::optional<std::string>();
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(buffer_[i]);
  }
  if (length > kFrameBytesMax) return make_error_code(Errc::too_large);
  if (buffer_.size() < kFrameHeaderBytes + length) return std::optional<std::string>();
  std::optional<std::string> body(buffer_.substr(kFrameHeaderBytes, length));
  buffer_.erase(0, kFrameHeaderBytes + length);
  return body;
}

std::string encode_hello(const Hello& hello) {
  return nlohmann::json{{"ddprun", hello.kind},
                        {"versions", {hello.version_min, hello.version_max}},
                        {"features", hello.features}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Hello> decode_hello(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto malformed = make_error_code(Errc::malformed);
  if (!json.is_object()) return malformed;
  const auto kind = json.find("ddprun");
  const auto versions = json.find("versions");
  if (kind == json.end() || !kind->is_string() || versions == json.end() || !versions->is_array() ||
      versions->size() != 2 || !(*versions)[0].is_number_integer() ||
      !(*versions)[1].is_number_integer()) {
    return malformed;
  }
  Hello hello;
  hello.kind = kind->get<std::string>();
  hello.version_min = (*versions)[0].get<int>();
  hello.version_max = (*versions)[1].get<int>();
  if (const auto features = json.find("features"); features != json.end() && features->is_array()) {
    for (const auto& feature : *features) {
      if (feature.is_string()) hello.features.push_back(feature.get<std::string>());
    }
  }
  return hello;
}

Result<int> agree_on_version(const Hello& ours, const Hello& theirs) {
  const int highest = std::min(ours.version_max, theirs.version_max);
  if (ours.kind != theirs.kind || highest < std::max(ours.version_min, theirs.version_min)) {
    return make_error_code(Errc::version_mismatch);
  }
  return highest;
}

}  // namespace ddprun::proto
