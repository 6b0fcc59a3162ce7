#include "rendezvous/tls/certificate_end.hpp"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "proto/error.hpp"
#include "rendezvous/tls/certificate_text.hpp"

namespace ddprun::rdzv {

using openssl::Verification;
using proto::Errc;

namespace {

// From openssl/ssl.h, tls1.h and sslerr.h.
constexpr int kSetServerName = 55;
constexpr unsigned long kHandshakeFailure = 40;  // an alert
constexpr unsigned long kProtocolVersion = 70;
constexpr unsigned long kNoCertificate = 199;

bool is_addr(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> addr{};
  return inet_pton(AF_INET, host.c_str(), addr.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), addr.data()) == 1;
}

}  // namespace

void CertificateEnd::prepare(const openssl::Library& library, openssl::Context* context, int mode) {
  library.call.context_set_verify(context, mode, &CertificateEnd::verify);
}

CertificateEnd::CertificateEnd(std::shared_ptr<const openssl::Library> library,
                               openssl::Context* context,
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

CertificateEnd::CertificateEnd(std::shared_ptr<const openssl::Library> library,
                               openssl::Context* context,
                               std::shared_ptr<const CertificateSettings> settings)
    : TlsEnd(std::move(library), context), settings_(std::move(settings)), is_client_(false) {
  begin_as_service();
}

/// OpenSSL compares it with the certificate's names.
bool CertificateEnd::expect_host() {
  openssl::VerifySettings* const verify_settings = call_.connection_verify_settings(connection_);
  if (is_addr(host_)) return call_.verify_set_ip(verify_settings, host_.c_str()) == 1;
  // Without a name any would do.
  const std::string name = host_.empty() ? "." : host_;
  if (!host_.empty())
    call_.connection_ctrl(connection_, kSetServerName, 0, const_cast<char*>(host_.c_str()));
  return call_.verify_set_host(verify_settings, name.data(), name.size()) == 1;
}

int CertificateEnd::verify(int is_right, Verification* verification) {
  if (is_right == 1) return 1;
  const openssl::Functions& call = functions();
  const void* const connection =
      call.verification_data(verification, call.verification_data_index());
  auto& end = static_cast<CertificateEnd&>(of(static_cast<const openssl::Connection*>(connection)));
  try {
    end.note_unverified(verification);
  } catch (...) {
    end.note_thrown();
  }
  return 0;
}

void CertificateEnd::note_unverified(const Verification* verification) {
  is_unverified_ = true;
  Unverified unverified;
  unverified.error = call_.verification_error(verification);
  unverified.certificate = call_.verification_certificate(verification);
  unverified.host = host_;
  unverified.authorities = settings_->authorities.path.empty()
                               ? "the authorities of this machine's OpenSSL"
                               : settings_->authorities.path;
  set_problem(why_unverified(call_, unverified));
}

ErrorCode CertificateEnd::accept_handshake() {
  // OpenSSL has checked the certificate, or the handshake would have failed.
  return call_.verify_result(connection_) == 0 ? ErrorCode()
                                               : make_error_code(Errc::certificate_refused);
}

bool CertificateEnd::is_alert_of_certificate(unsigned long error) {
  const unsigned long reason = reason_of(error);
  if (reason < kAlertReceived) return false;
  const unsigned long alert = reason - kAlertReceived;
  const std::string said = certificate_alert(alert);
  // Any alert about one is about its absence then; not all programs have another one for that.
  const bool lacks_certificate = is_client_ && !said.empty() && settings_->certificate.path.empty();
  // A rendezvous with the key of a secret gives up so; etcd has a certificate always.
  const bool may_have_key = is_client_ && !settings_->allows_tls12 && alert == kHandshakeFailure;
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
  if (reason_of(error) == kNoCertificate) {
    set_problem("it has no certificate, and one is asked for (--rdzv-tls-cert, --rdzv-tls-key)");
    return make_error_code(Errc::certificate_refused);
  }
  if (is_alert_of_certificate(error)) return make_error_code(Errc::certificate_refused);
  set_problem(reason_of(error) == kAlertReceived + kProtocolVersion
                  ? "it has no version of TLS in common with this side"
                  : fmt::format("no TLS handshake with it: {}", error_text(call_, error)));
  return make_error_code(Errc::malformed);  // of another program
}

ErrorCode CertificateEnd::failure_behind_handshake(unsigned long error) {
  return make_error_code(is_alert_of_certificate(error) ? Errc::certificate_refused
                                                        : Errc::not_authentic);
}

}  // namespace ddprun::rdzv
