// An end whose proof is a key from the job's secret (an external pre-shared key).
#pragma once

#include <memory>
#include <string>

#include "proto/encryption.hpp"
#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls_end.hpp"

namespace ddprun::rdzv {

class PskEnd final : public TlsEnd {
 public:
  /// Prepares a context for all its connections, before the first of them.
  static void prepare_client(const openssl::Library& library, SSL_CTX* context);
  static void prepare_service(const openssl::Library& library, SSL_CTX* context);

  /// A client. The context is borrowed. Throws std::bad_alloc, as the other one does.
  PskEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
         const std::string& secret, const std::string& run_id);
  /// A service.
  PskEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
         proto::SecretFor secret_for);

 private:
  static int use_session(SSL* connection, const EVP_MD* digest, const unsigned char** identity,
                         std::size_t* identity_bytes, SSL_SESSION** session);
  static int find_session(SSL* connection, const unsigned char* identity,
                          std::size_t identity_bytes, SSL_SESSION** session);

  ErrorCode accept_handshake() override;
  ErrorCode failure_of(unsigned long error) override;
  [[nodiscard]] SSL_SESSION* session_with(const std::string& secret) const;

  bool offers_key_ = false;  // the client, and maybe of another program
  bool key_was_asked_for_ = false;
  std::string secret_;  // of a client, until the handshake is over
  proto::SecretFor secret_for_;
  std::string identity_;
};

}  // namespace ddprun::rdzv
