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

const Handshake kHandshake{hash_of_hello("{\"client\"}"), hash_of_hello("{\"service\"}")};
const SessionKey kKey = session_key("secret", kHandshake);

template <std::size_t kSize>
std::string hex(const std::array<std::uint8_t, kSize>& bytes) {
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

TEST_CASE("a proof is the HMAC-SHA256 of what it proves") {
  // python3 -c 'import hmac; print(hmac.new(b"secret", b"ddprun proof 2" + ...,
  // "sha256").hexdigest())'
  CHECK(hex(proof("secret", Side::client, kHandshake)) ==
        "698ec29349f74804dc91c53a5c74c8e7362fadb04d6722789554dc92f3d1de9c");
  CHECK(hex(session_key("secret", kHandshake)) ==
        "2294a29a4728adf632156c31cc8d510549298144cc8faad29bad1f105dcb4485");
  CHECK(hex(tag(kKey, Side::service, 0x0102030405060708, "{}")) ==
        "511c9ff2a99963e0748d3a1605114b49");
}

TEST_CASE("a tag is the beginning of RFC 4231's second vector where its input is that vector's") {
  // The key of a vector is filled up with zeros as HMAC itself does it; its first bytes, "what do
  // y", stand where the sender and the counter do.
  const SessionKey key{'J', 'e', 'f', 'e'};
  CHECK(hex(tag(key, static_cast<Side>('w'), 0x68617420646f2079, "a want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c7");
}

TEST_CASE("a proof holds for one side, both hellos and the secret only") {
  const Proof ours = proof("secret", Side::client, kHandshake);
  CHECK(is_same(ours, proof("secret", Side::client, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("secret", Side::service, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("Secret", Side::client, kHandshake)));
  CHECK_FALSE(is_same(ours, proof("", Side::client, kHandshake)));
  Handshake other = kHandshake;
  std::swap(other.client, other.service);
  CHECK_FALSE(is_same(ours, proof("secret", Side::client, other)));
  other = kHandshake;
  other.service = hash_of_hello("{\"service2\"}");
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
  later.service = hash_of_hello("{\"later\"}");
  CHECK(TaggedFrames(session_key("secret", later), Side::client).open(first).error() ==
        Errc::not_authentic);
}
