// Length-prefixed frames and the versioned hello that opens every control connection (job socket,
// rendezvous).
//
//   frame := u32 length, big-endian; `length` bytes of UTF-8 JSON (one object)
//   hello := {"ddprun": "job", "versions": [min, max], "features": ["..."], ...}; unknown fields
//   are ignored
//
// Both sides send a hello first; the higher of the versions in common is spoken.
#pragma once

#include <array>
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
/// From a peer that has proven nothing yet. Its length has two zero bytes in front, by which
/// opening_of() knows a control connection.
inline constexpr std::size_t kFrameBytesBeforeProof = 0xffff;
/// A parser that has given all its frames keeps at most so much memory: enough for a keep-alive.
inline constexpr std::size_t kIdleBufferBytes = 256;

/// `body` with its header in front. `body` must not be larger than kFrameBytesMax.
std::string encode_frame(std::string_view body);

/// Collects bytes and gives whole frames, in time that is linear in the bytes. Announcing a length
/// reserves nothing.
class FrameParser {
 public:
  explicit FrameParser(std::size_t frame_bytes_max = kFrameBytesMax)
      : frame_bytes_max_(frame_bytes_max) {}

  /// From the next frame on.
  void allow(std::size_t frame_bytes_max) { frame_bytes_max_ = frame_bytes_max; }
  void append(std::string_view bytes);
  /// The next whole frame's body, valid until the next call; none: more bytes are needed;
  /// too_large: the peer must be dropped.
  Result<std::optional<std::string_view>> next_view();
  /// A copy of it.
  Result<std::optional<std::string>> next();

  /// Memory that is in use, given frames included.
  std::size_t held_bytes() const { return buffer_.capacity(); }

 private:
  std::size_t frame_bytes_max_;
  std::string buffer_;
  std::size_t given_ = 0;  ///< bytes in front of the buffer that have been given
};

inline constexpr std::size_t kControlSignBytes = 5;
/// What a connection is for, by its first bytes.
enum class Opening {
  control,            ///< the header of a short frame and a brace
  encrypted_control,  ///< a TLS handshake record (RFC 8446, section 5.1)
  other,              ///< the c10d protocol, which shares the port: it begins neither way
};
/// None: more bytes are needed, at most kControlSignBytes.
std::optional<Opening> opening_of(std::string_view first_bytes);

/// Random bytes, fresh for each connection.
using Nonce = std::array<std::uint8_t, 16>;

enum class Authentication { none, hmac };

struct Hello {
  std::string kind;  ///< "job", "rendezvous"
  int version_min = 0;
  int version_max = 0;
  std::vector<std::string> features;
  std::optional<Nonce> nonce = std::nullopt;   ///< rendezvous
  Authentication auth = Authentication::none;  ///< of the service: what it asks for
  std::string run_id = {};                     ///< of an agent: its job
  /// The service's secret, in a credential for clients of its user that have none
  /// (proto/credentials.hpp).
  std::string munge = {};
};

std::string encode_hello(const Hello& hello);
/// Errors: malformed.
Result<Hello> decode_hello(std::string_view body);
/// The version both can speak. Errors: version_mismatch.
Result<int> agree_on_version(const Hello& ours, const Hello& theirs);
/// Whether the peer's program is newer than ours, by its versions or features. Messages of a kind
/// that we do not know are then ignored; from any other peer they are errors.
bool is_newer(const Hello& theirs, const Hello& ours);

}  // namespace ddprun::proto
