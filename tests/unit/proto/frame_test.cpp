// Frames of the control connections: whole frames out of any pieces, limits, and what is held.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/error.hpp"
#include "proto/frame.hpp"

using namespace ddprun::proto;

namespace {

std::vector<std::string_view> bodies_of(FrameParser& parser) {
  std::vector<std::string_view> bodies;
  while (const auto next = parser.next_view().value()) bodies.push_back(*next);
  return bodies;
}

}  // namespace

TEST_CASE("a frame is a big-endian length and its body") {
  CHECK(encode_frame("{}") == std::string("\0\0\0\2{}", 6));
  CHECK(encode_frame(std::string(258, 'x')).substr(0, 5) == std::string("\0\0\1\2x", 5));
}

TEST_CASE("frames come whole, however their bytes are cut") {
  const std::string bytes = encode_frame("{\"a\":1}") + encode_frame("") + encode_frame("{}");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameParser parser;
    std::vector<std::string> bodies;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      parser.append(std::string_view(bytes).substr(at, piece));
      for (const std::string_view body : bodies_of(parser)) bodies.emplace_back(body);
    }
    CHECK(bodies == std::vector<std::string>{"{\"a\":1}", "", "{}"});
  }
}

// With moved bytes every frame of a read costs as much as all that are behind it.
TEST_CASE("many frames of one read are given without moving the bytes behind them") {
  constexpr std::size_t kFrames = 1000;
  std::string bytes;
  for (std::size_t i = 0; i < kFrames; ++i) bytes += encode_frame("{\"keep_alive\":{}}");
  FrameParser parser;
  parser.append(bytes);
  const auto bodies = bodies_of(parser);
  REQUIRE(bodies.size() == kFrames);
  const std::size_t frame = bytes.size() / kFrames;
  for (std::size_t i = 0; i < kFrames; ++i) {
    REQUIRE(bodies[i].data() == bodies[0].data() + i * frame);
  }
}

TEST_CASE("a length above the limit is refused as soon as it is there") {
  FrameParser parser;
  parser.append(std::string("\0\x10\0\1", 4));
  CHECK(parser.next_view().error() == Errc::too_large);
  FrameParser small(kFrameBytesBeforeProof);
  small.append(std::string("\0\1\0\0", 4));
  CHECK(small.next_view().error() == Errc::too_large);
}

TEST_CASE("after the proof a parser takes larger frames") {
  FrameParser parser(kFrameBytesBeforeProof);
  parser.append(encode_frame(std::string(kFrameBytesBeforeProof, ' ')));
  CHECK(parser.next_view().value()->size() == kFrameBytesBeforeProof);
  parser.allow(kFrameBytesMax);
  parser.append(encode_frame(std::string(kFrameBytesMax, ' ')));
  CHECK(parser.next_view().value()->size() == kFrameBytesMax);
}

TEST_CASE("a parser that has given all its frames holds no large buffer") {
  FrameParser parser;
  parser.append(encode_frame(std::string(kFrameBytesMax, ' ')));
  CHECK(parser.held_bytes() >= kFrameBytesMax);
  CHECK(bodies_of(parser).size() == 1);
  CHECK(parser.held_bytes() <= kIdleBufferBytes);
}

TEST_CASE("frames that are taken one at a time do not make the buffer grow") {
  const std::string frame = encode_frame(std::string(100, ' '));
  FrameParser parser;
  parser.append(frame + frame);
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE(parser.next().value() == frame.substr(kFrameHeaderBytes));
    parser.append(frame);
  }
  CHECK(parser.held_bytes() <= 10 * frame.size());
}

TEST_CASE("a record of a handshake begins an encrypted control connection") {
  CHECK(opening_of("\x16\x03") == Opening::encrypted_control);
  CHECK(opening_of(std::string("\x16\x03\x01\x02\0", 5)) == Opening::encrypted_control);
  CHECK(opening_of("\x16") == std::nullopt);
  CHECK(opening_of("\x16\x02\x01") == Opening::other);
  CHECK(opening_of("\x15\x03") == Opening::other);  // an alert
  CHECK(opening_of("") == std::nullopt);
}

TEST_CASE("five bytes tell a control connection from the c10d protocol") {
  const std::string hello = encode_frame(encode_hello({"rendezvous", 1, 1, {}}));
  CHECK(opening_of(hello) == Opening::control);
  for (std::size_t length = 0; length < kControlSignBytes; ++length) {
    CHECK(opening_of(hello.substr(0, length)) == std::nullopt);
  }
  CHECK(opening_of(std::string("\0\xce\xf7\x85\x3c", 5)) == Opening::other);  // VALIDATE
  CHECK(opening_of(std::string("\0\xce", 2)) == Opening::other);
  CHECK(opening_of(std::string("\0\0\1\0\0\0\0\0\0/", 10)) ==
        Opening::other);                     // SET of old dialect
  CHECK(opening_of("G") == Opening::other);  // GET / HTTP/1.1
}
