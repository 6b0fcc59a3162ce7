#include "proto/frame.hpp"

#include <algorithm>

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

void FrameParser::append(std::string_view bytes) {
  // Moves no more bytes than were given since the last time.
  if (given_ > buffer_.size() / 2) {
    buffer_.erase(0, given_);
    given_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<std::string_view>> FrameParser::next_view() {
  const std::string_view rest = std::string_view(buffer_).substr(given_);
  if (rest.empty()) {
    given_ = 0;
    buffer_.clear();
    if (buffer_.capacity() > kIdleBufferBytes) buffer_.shrink_to_fit();
  }
  if (rest.size() < kFrameHeaderBytes) return std::optional<std::string_view>();
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(rest[i]);
  }
  if (length > frame_bytes_max_) return make_error_code(Errc::too_large);
  if (rest.size() < kFrameHeaderBytes + length) return std::optional<std::string_view>();
  given_ += kFrameHeaderBytes + length;
  return std::optional(rest.substr(kFrameHeaderBytes, length));
}

Result<std::optional<std::string>> FrameParser::next() {
  const auto view = next_view();
  if (!view) return view.error();
  return *view ? std::optional<std::string>(**view) : std::nullopt;
}

std::optional<Opening> opening_of(std::string_view first_bytes) {
  constexpr std::string_view kHandshakeRecord("\x16\x03", 2);
  if (first_bytes.starts_with(kHandshakeRecord)) return Opening::encrypted_control;
  if (!first_bytes.empty() && kHandshakeRecord.starts_with(first_bytes)) return std::nullopt;
  const std::string_view known = first_bytes.substr(0, kControlSignBytes);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (i < 2 && known[i] != 0) return Opening::other;
    if (i == 4) return known[i] == '{' ? Opening::control : Opening::other;
  }
  return std::nullopt;
}

}  // namespace ddprun::proto
