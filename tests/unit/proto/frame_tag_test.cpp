// Proofs and tags: known vectors of HMAC-SHA256, and what a peer on the path cannot do.
#include <catch2/catch.hpp>
#include <string>

#include "proto/error.hpp"
#include "proto/frame_tag.hpp"
#include "tests/support/hex.hpp"

using namespace ddprun::proto;
using ddprun::test::from_hex;
using ddprun::test::to_hex;

namespace {

const Handshake kHandshake{Nonce{1, 2, 3}, Nonce{4, 5, 6}, "job"};
const SessionKey kKey = session_key("secret", kHandshake);

template <std::size_t kSize>
std::string hex(const std::array<std::uint8_t, kSize>& bytes) {
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

TEST_CASE("a proof is the HMAC-SHA256 of what it proves") {
  // python3 -c 'import hmac; print(hmac.new(b"secret", b"ddprun proof 1" + ...,
  // "sha256").hexdigest())'
  CHECK(hex(proof("secret", Side::client, kHandshake)) ==
        "24ae4973715c90056e1d8a8b251ab0098389da881ef88e29d9ab33d4fbe31730");
  CHECK(hex(session_key("secret", kHandshake)) ==
        "0e392bd55e2cfad015286b66345f275294f2fde833b29e6144bd55f5a20c6779");
  CHECK(hex(tag(kKey, Side::service, 0x0102030405060708, "{}")) ==
        "bd9ffd1d2a670f5225c6de5b6e710397");
}

TEST_CASE("a tag is the beginning of RFC 4231's second vector where its input is that vector's") {
  // The key of a vector is filled up with zeros as HMAC itself does it; its first bytes, "what do
  // y", stand where the sender and the counter do.
  const SessionKey key{'J', 'e', 'f', 'e'};
  CHECK(hex(tag(key, static_cast<Side>('w'), 0x68617420646f2079, "a want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c7");
}

TEST_CASE("a proof holds for one side, both nonces, the run id and the secret only") {
  const Proof ours = proof("secret", Side::client, kHandshake);
  CHECK(is_same(ours, proof("secret", Side::client, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("secret", Side::service, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("Secret", Side::client, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("", Side::client, kHandshake)));
  Handshake other = kHandshake;
  std::swap(other.client_nonce, other.service_nonce);
  CHECK_FALSE(is_same(ours, proof("secret", Side::client, other)));
  other = kHandshake;
  other.run_id = "job2";
  CHECK_FALSE(is_same(ours, proof("secret", Side::client, other)));
  CHECK_FALSE(is_same(ours, session_key("secret", kHandshake)));
}

TEST_CASE("tagged frames arrive in their order") {
  TaggedFrames sender(kKey, Side::client);
  TaggedFrames receiver(kKey, Side::client);
  for (const std::string body : {"{}", "", "{\"bye\":{}}", "{}"}) {
    const std::string sealed = sender.seal(body);
    CHECK(sealed.size() == body.size() + kTagBytes);
    CHECK(receiver.open(sealed).value() == body);
  }
}

TEST_CASE("a tagged frame that was changed anywhere is refused") {
  const std::string sealed = TaggedFrames(kKey, Side::client).seal("{\"bye\":{}}");
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    REQUIRE(TaggedFrames(kKey, Side::client).open(changed).error() == Errc::not_authentic);
  }
  for (std::size_t length = 0; length < sealed.size(); ++length) {
    REQUIRE(TaggedFrames(kKey, Side::client).open(sealed.substr(0, length)).error() ==
            Errc::not_authentic);
  }
}

TEST_CASE("a frame that is repeated, left out, sent back or of another connection is refused") {
  TaggedFrames sender(kKey, Side::client);
  const std::string first = sender.seal("{}");
  const std::string second = sender.seal("{}");
  CHECK(first != second);
  TaggedFrames receiver(kKey, Side::client);
  CHECK(receiver.open(second).error() == Errc::not_authentic);
  CHECK(receiver.open(first).has_value());
  CHECK(receiver.open(first).error() == Errc::not_authentic);
  CHECK(receiver.open(second).has_value());
  CHECK(TaggedFrames(kKey, Side::service).open(first).error() == Errc::not_authentic);
  Handshake later = kHandshake;
  later.service_nonce = Nonce{7};
  CHECK(TaggedFrames(session_key("secret", later), Side::client).open(first).error() ==
        Errc::not_authentic);
}
