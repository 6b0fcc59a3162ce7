// Proofs and tags by a shared secret: that a peer has it, and that no frame was changed, left out,
// repeated or sent back. HMAC-SHA256 of libsodium; nothing is encrypted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::proto {

using HelloHash = std::array<std::uint8_t, 32>;
/// SHA-256 of the body of a hello, as it was sent.
HelloHash hash_of_hello(std::string_view body);

/// What both sides know after the hellos. All of it is proven: a path that changes a hello, such as
/// its versions or features, gets no connection.
struct Handshake {
  HelloHash client{};
  HelloHash service{};
};

enum class Side : std::uint8_t { client = 1, service = 2 };

/// That `side` has the secret.
Proof proof(std::string_view secret, Side side, const Handshake& handshake);

/// Compares in constant time.
bool is_same(const Proof& left, const Proof& right);

using SessionKey = std::array<std::uint8_t, 32>;
/// The key of all tags of one connection.
SessionKey session_key(std::string_view secret, const Handshake& handshake);

/// The pre-shared key of TLS 1.3 (RFC 8446, section 4.2.11), of all connections with this secret.
/// It does not tell the two sides apart; the proofs, which are exchanged under it, do.
SessionKey encryption_key(std::string_view secret);

inline constexpr std::size_t kTagBytes = 16;
using Tag = std::array<std::uint8_t, kTagBytes>;
/// The tag of the frame `counter`, from 0, that `from` sends.
Tag tag(const SessionKey& key, Side from, std::uint64_t counter, std::string_view body);

/// The frames of one direction of a connection, once both sides have proven the secret. A tag
/// stands behind each body, inside the frame.
class TaggedFrames {
 public:
  TaggedFrames(const SessionKey& key, Side from) : key_(key), from_(from) {}

  /// The body of the next frame to send, with its tag.
  std::string seal(std::string_view body);
  /// The body of the next frame that arrived, inside `sealed`. Errors: not_authentic: the
  /// connection must be dropped.
  Result<std::string_view> open(std::string_view sealed);

 private:
  SessionKey key_;
  Side from_;
  std::uint64_t counter_ = 0;
};

}  // namespace ddprun::proto
