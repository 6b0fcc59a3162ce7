// An end whose proof is a certificate: of the service always, of the client where the service asks.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls.hpp"
#include "rendezvous/tls/tls_end.hpp"

namespace ddprun::rdzv {

class CertificateEnd final : public TlsEnd {
 public:
  /// Prepares a context for all its connections, before the first of them. `mode`: as
  /// SSL_CTX_set_verify takes it.
  static void prepare(const openssl::Library& library, SSL_CTX* context, int mode);

  /// A client of the service at `host`. The context is borrowed. Throws std::bad_alloc, as the
  /// other one does.
  CertificateEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
                 std::shared_ptr<const CertificateSettings> settings, const std::string& host);
  /// A service.
  CertificateEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
                 std::shared_ptr<const CertificateSettings> settings);

 private:
  static int verify(int is_right, X509_STORE_CTX* verification);

  [[nodiscard]] bool expect_host();
  ErrorCode accept_handshake() override;
  ErrorCode failure_of(unsigned long error) override;
  ErrorCode failure_behind_handshake(unsigned long error) override;
  [[nodiscard]] bool is_alert_of_certificate(unsigned long error);
  void note_unverified(const X509_STORE_CTX* verification);

  const std::shared_ptr<const CertificateSettings> settings_;
  const bool is_client_;
  const std::string host_;  // of a client
  bool is_unverified_ = false;
};

}  // namespace ddprun::rdzv
