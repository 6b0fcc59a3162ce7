#include "rendezvous/tls/psk_end.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <sodium.h>

#include "proto/error.hpp"
#include "proto/frame_tag.hpp"

namespace ddprun::rdzv {

using proto::Errc;

namespace {

constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
/// In front of the run id, because an identity has at least one byte.
constexpr std::string_view kIdentity = "ddprun ";
/// A run id is shorter.
constexpr std::size_t kIdentityBytesMax = 1024;

/// One that no peer can have.
proto::SessionKey random_key() {
  proto::SessionKey key{};
  randombytes_buf(key.data(), key.size());
  return key;
}

}  // namespace

void PskEnd::prepare_client(const openssl::Library& library, SSL_CTX* context) {
  library.call.SSL_CTX_set_psk_use_session_callback(context, &PskEnd::use_session);
}

void PskEnd::prepare_service(const openssl::Library& library, SSL_CTX* context) {
  library.call.SSL_CTX_set_psk_find_session_callback(context, &PskEnd::find_session);
}

PskEnd::PskEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
               const std::string& secret, const std::string& run_id)
    : TlsEnd(std::move(library), context),
      secret_(secret),
      identity_(std::string(kIdentity) + run_id) {
  run_id_ = run_id;
  begin_as_client();
}

PskEnd::PskEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
               proto::SecretFor secret_for)
    : TlsEnd(std::move(library), context), secret_for_(std::move(secret_for)) {
  begin_as_service();
}

int PskEnd::use_session(SSL* connection, const EVP_MD*, const unsigned char** identity,
                        std::size_t* identity_bytes, SSL_SESSION** session) {
  // Both cipher suites that a context has are of the key's digest.
  const auto& end = static_cast<const PskEnd&>(of(connection));
  *identity = reinterpret_cast<const unsigned char*>(end.identity_.data());
  *identity_bytes = end.identity_.size();
  *session = end.session_with(end.secret_);
  return 1;
}

int PskEnd::find_session(SSL* connection, const unsigned char* identity, std::size_t identity_bytes,
                         SSL_SESSION** session) {
  auto& end = static_cast<PskEnd&>(of(connection));
  *session = nullptr;
  end.offers_key_ = true;
  const std::string_view given(reinterpret_cast<const char*>(identity), identity_bytes);
  if (!given.starts_with(kIdentity) || given.size() > kIdentityBytesMax) return 1;
  end.key_was_asked_for_ = true;
  try {
    end.run_id_ = given.substr(kIdentity.size());
    *session = end.session_with(end.secret_for_(end.run_id_));
    return 1;
  } catch (...) {
    end.note_thrown();
    return 0;
  }
}

/// A peer is not to learn from the answer for which run ids there are secrets.
SSL_SESSION* PskEnd::session_with(const std::string& secret) const {
  proto::SessionKey key = secret.empty() ? random_key() : proto::encryption_key(secret);
  SSL_SESSION* const session = call_.SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* const cipher = call_.SSL_CIPHER_find(connection_, kAes128GcmSha256.data());
  const bool is_complete =
      cipher != nullptr &&
      call_.SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
      call_.SSL_SESSION_set_cipher(session, cipher) == 1 &&
      call_.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  sodium_memzero(key.data(), key.size());
  if (is_complete) return session;
  call_.SSL_SESSION_free(session);
  return nullptr;
}

ErrorCode PskEnd::accept_handshake() {
  if (call_.SSL_session_reused(connection_) != 1) return make_error_code(Errc::malformed);
  sodium_memzero(secret_.data(), secret_.size());
  secret_.clear();
  return {};
}

ErrorCode PskEnd::failure_of(unsigned long error) {
  const unsigned long reason = reason_of(error);
  // What a service answers a wrong binder with (RFC 8446, section 4.2.11).
  const bool is_refused = reason == SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER ||
                          reason == SSL_AD_REASON_OFFSET + SSL_AD_DECRYPT_ERROR;
  if (is_refused || key_was_asked_for_) return make_error_code(Errc::not_authentic);
  // A client trusts no certificate.
  if (secret_for_ == nullptr && call_.SSL_get_verify_result(connection_) != 0) {
    set_problem(
        "it has a certificate, and this node's key comes from the secret; name the file of the "
        "authorities to trust (--rdzv-tls-ca; rdzvd: --tls-ca)");
    return make_error_code(Errc::certificate_refused);
  }
  // A client without a key of ours asks for a certificate, and there is none.
  if (!offers_key_ &&
      (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER)) {
    set_problem(
        "it expects a certificate (--rdzv-tls-ca), and this rendezvous has none: its key comes "
        "from the secret");
    return make_error_code(Errc::certificate_refused);
  }
  return make_error_code(Errc::malformed);  // of another program
}

}  // namespace ddprun::rdzv
