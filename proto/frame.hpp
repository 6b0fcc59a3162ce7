// Length-prefixed frames and the versioned hello that opens every control connection (job socket,
// rendezvous).
//
//   frame := u32 length, big-endian; `length` bytes of UTF-8 JSON (one object)
//   hello := {"ddprun": "job", "versions": [min, max], "features": ["..."], ...}; unknown fields
//   are ignored
//
// Both sides send a hello first; the higher of the versions in common is spoken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace ddprun::proto {

inline constexpr std::size_t kFrameHeaderBytes = 4;
inline constexpr std::size_t kFrameBytesMax = std::size_t{1} << 20;

/// `body` with its header in front. `body` must not be larger than kFrameBytesMax.
std::string encode_frame(std::string_view body);

/// Collects bytes and gives whole frames. Announcing a length reserves nothing.
class FrameParser {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame's body; none: more bytes are needed; too_large: the peer must be dropped.
  Result<std::optional<std::string>> next();

 private:
  std::string buffer_;
};

struct Hello {
  std::string kind;  ///< "job"
  int version_min = 0;
  int version_max = 0;
  std::vector<std::string> features;
};

std::string encode_hello(const Hello& hello);
/// Errors: malformed.
Result<Hello> decode_hello(std::string_view body);
/// The version both can speak. Errors: version_mismatch.
Result<int> agree_on_version(const Hello& ours, const Hello& theirs);

}  // namespace ddprun::proto
