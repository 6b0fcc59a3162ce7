#include "proto/frame_tag.hpp"

#include <algorithm>

#include <sodium.h>

#include "proto/error.hpp"

namespace ddprun::proto {
namespace {

// What a hash is for is part of it: none can stand for another.
constexpr std::string_view kForProof = "ddprun proof 2";
constexpr std::string_view kForKey = "ddprun session key 2";
constexpr std::string_view kForEncryption = "ddprun tls key 1";

/// HMAC-SHA256 of parts. All but the last have a fixed length, so that no two lists of parts have
/// the same bytes.
class Hmac {
 public:
  explicit Hmac(std::string_view key) {
    crypto_auth_hmacsha256_init(&state_, bytes(key.data()), key.size());
  }
  ~Hmac() { sodium_memzero(&state_, sizeof state_); }
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;

  Hmac& add(std::string_view part) {
    crypto_auth_hmacsha256_update(&state_, bytes(part.data()), part.size());
    return *this;
  }
  template <std::size_t kSize>
  Hmac& add(const std::array<std::uint8_t, kSize>& part) {
    crypto_auth_hmacsha256_update(&state_, part.data(), part.size());
    return *this;
  }
  std::array<std::uint8_t, crypto_auth_hmacsha256_BYTES> result() {
    std::array<std::uint8_t, crypto_auth_hmacsha256_BYTES> hash{};
    crypto_auth_hmacsha256_final(&state_, hash.data());
    return hash;
  }

 private:
  static const unsigned char* bytes(const char* text) {
    return reinterpret_cast<const unsigned char*>(text);
  }
  crypto_auth_hmacsha256_state state_;
};

std::array<std::uint8_t, 9> numbered(Side from, std::uint64_t counter) {
  std::array<std::uint8_t, 9> bytes{static_cast<std::uint8_t>(from)};
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(counter >> (64 - 8 * i));
  }
  return bytes;
}

}  // namespace

HelloHash hash_of_hello(std::string_view body) {
  HelloHash hash;
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(body.data()), body.size());
  return hash;
}

Proof proof(std::string_view secret, Side side, const Handshake& handshake) {
  return Hmac(secret)
      .add(kForProof)
      .add(std::array{static_cast<std::uint8_t>(side)})
      .add(handshake.client)
      .add(handshake.service)
      .result();
}

bool is_same(const Proof& left, const Proof& right) {
  return sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

SessionKey encryption_key(std::string_view secret) {
  return Hmac(secret).add(kForEncryption).result();
}

SessionKey session_key(std::string_view secret, const Handshake& handshake) {
  return Hmac(secret).add(kForKey).add(handshake.client).add(handshake.service).result();
}

Tag tag(const SessionKey& key, Side from, std::uint64_t counter, std::string_view body) {
  const auto hash = Hmac({reinterpret_cast<const char*>(key.data()), key.size()})
                        .add(numbered(from, counter))
                        .add(body)
                        .result();
  Tag result;
  std::copy_n(hash.begin(), result.size(), result.begin());
  return result;
}

std::string TaggedFrames::seal(std::string_view body) {
  const Tag end = tag(key_, from_, counter_++, body);
  std::string sealed;
  sealed.reserve(body.size() + end.size());
  sealed.append(body);
  sealed.append(reinterpret_cast<const char*>(end.data()), end.size());
  return sealed;
}

Result<std::string_view> TaggedFrames::open(std::string_view sealed) {
  if (sealed.size() < kTagBytes) return make_error_code(Errc::not_authentic);
  const std::string_view body = sealed.substr(0, sealed.size() - kTagBytes);
  const Tag expected = tag(key_, from_, counter_, body);
  if (sodium_memcmp(expected.data(), sealed.data() + body.size(), kTagBytes) != 0) {
    return make_error_code(Errc::not_authentic);
  }
  ++counter_;
  return body;
}

}  // namespace ddprun::proto
