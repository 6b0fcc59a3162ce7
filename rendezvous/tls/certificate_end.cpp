#include "rendezvous/tls/certificate_end.hpp"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "proto/error.hpp"
#include "rendezvous/tls/certificate_text.hpp"

namespace ddprun::rdzv {

using proto::Errc;

namespace {

bool is_addr(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> addr{};
  return inet_pton(AF_INET, host.c_str(), addr.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), addr.data()) == 1;
}

}  // namespace

void CertificateEnd::prepare(const openssl::Library& library, SSL_CTX* context, int mode) {
  library.call.SSL_CTX_set_verify(context, mode, &CertificateEnd::verify);
}

CertificateEnd::CertificateEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
                               std::shared_ptr<const CertificateSettings> settings,
                               const std::string& host)
    : TlsEnd(std::move(library), context),
      settings_(std::move(settings)),
      is_client_(true),
      // The zone of a link-local address is this machine's own.
      host_(host.substr(0, host.find('%'))) {
  if (!expect_host()) throw std::bad_alloc();
  begin_as_client();
}

CertificateEnd::CertificateEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context,
                               std::shared_ptr<const CertificateSettings> settings)
    : TlsEnd(std::move(library), context), settings_(std::move(settings)), is_client_(false) {
  begin_as_service();
}

/// OpenSSL compares it with the certificate's names.
bool CertificateEnd::expect_host() {
  X509_VERIFY_PARAM* const verify_settings = call_.SSL_get0_param(connection_);
  if (is_addr(host_))
    return call_.X509_VERIFY_PARAM_set1_ip_asc(verify_settings, host_.c_str()) == 1;
  // Without a name any would do.
  const std::string name = host_.empty() ? "." : host_;
  if (!host_.empty())
    call_.SSL_ctrl(connection_, SSL_CTRL_SET_TLSEXT_HOSTNAME, 0, const_cast<char*>(host_.c_str()));
  return call_.X509_VERIFY_PARAM_set1_host(verify_settings, name.data(), name.size()) == 1;
}

int CertificateEnd::verify(int is_right, X509_STORE_CTX* verification) {
  if (is_right == 1) return 1;
  const openssl::Functions& call = functions();
  const void* const connection =
      call.X509_STORE_CTX_get_ex_data(verification, call.SSL_get_ex_data_X509_STORE_CTX_idx());
  auto& end = static_cast<CertificateEnd&>(of(static_cast<const SSL*>(connection)));
  try {
    end.note_unverified(verification);
  } catch (...) {
    end.note_thrown();
  }
  return 0;
}

void CertificateEnd::note_unverified(const X509_STORE_CTX* verification) {
  is_unverified_ = true;
  Unverified unverified;
  unverified.error = call_.X509_STORE_CTX_get_error(verification);
  unverified.certificate = call_.X509_STORE_CTX_get_current_cert(verification);
  unverified.host = host_;
  unverified.authorities = settings_->authorities.path.empty()
                               ? "the authorities of this machine's OpenSSL"
                               : settings_->authorities.path;
  set_problem(why_unverified(call_, unverified));
}

ErrorCode CertificateEnd::accept_handshake() {
  // OpenSSL has checked the certificate, or the handshake would have failed.
  return call_.SSL_get_verify_result(connection_) == 0 ? ErrorCode()
                                                       : make_error_code(Errc::certificate_refused);
}

bool CertificateEnd::is_alert_of_certificate(unsigned long error) {
  const unsigned long reason = reason_of(error);
  if (reason < SSL_AD_REASON_OFFSET) return false;
  const unsigned long alert = reason - SSL_AD_REASON_OFFSET;
  const std::string said = certificate_alert(alert);
  // Any alert about one is about its absence then; not all programs have another one for that.
  const bool lacks_certificate = is_client_ && !said.empty() && settings_->certificate.path.empty();
  // A rendezvous with the key of a secret gives up so; etcd has a certificate always.
  const bool may_have_key =
      is_client_ && !settings_->allows_tls12 && alert == SSL_AD_HANDSHAKE_FAILURE;
  if (said.empty() && !may_have_key) return false;
  if (lacks_certificate) {
    set_problem(fmt::format("it asks for a certificate: add {}=FILE and {}=FILE{}",
                            settings_->certificate.option, settings_->key.option,
                            settings_->where));
  } else if (said.empty()) {
    set_problem(
        fmt::format("it has no certificate that fits (its key may come from the secret: leave out "
                    "{} then)",
                    settings_->authorities.option));
  } else if (is_client_) {
    set_problem(fmt::format("it does not accept the certificate {} ({})",
                            settings_->certificate.path, said));
  } else {
    set_problem(fmt::format("it does not accept the certificate of this rendezvous ({})", said));
  }
  return true;
}

ErrorCode CertificateEnd::failure_of(unsigned long error) {
  if (is_unverified_) return make_error_code(Errc::certificate_refused);
  if (reason_of(error) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    set_problem("it has no certificate, and one is asked for (--rdzv-tls-cert, --rdzv-tls-key)");
    return make_error_code(Errc::certificate_refused);
  }
  if (is_alert_of_certificate(error)) return make_error_code(Errc::certificate_refused);
  set_problem(reason_of(error) == SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION
                  ? "it has no version of TLS in common with this side"
                  : fmt::format("no TLS handshake with it: {}", error_text(call_, error)));
  return make_error_code(Errc::malformed);  // of another program
}

ErrorCode CertificateEnd::failure_behind_handshake(unsigned long error) {
  return make_error_code(is_alert_of_certificate(error) ? Errc::certificate_refused
                                                        : Errc::not_authentic);
}

}  // namespace ddprun::rdzv
