#include "rendezvous/tls/certificate_text.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"

namespace ddprun::rdzv {
namespace {

using openssl::Functions;

constexpr std::size_t kTextBytesMax = 300;

/// What `print` writes, in one line.
template <class Print>
std::string printed(const Functions& call, Print print) {
  BIO* const memory = call.BIO_new(call.BIO_s_mem());
  if (memory == nullptr) return "";
  print(memory);
  std::string text(std::min(call.BIO_ctrl_pending(memory), kTextBytesMax), '\0');
  const int count = call.BIO_read(memory, text.data(), static_cast<int>(text.size()));
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  call.BIO_free(memory);
  return printable(text);
}

std::string names_of(const Functions& call, const X509* certificate) {
  const int place = call.X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  if (place < 0) return subject_of(call, certificate);
  return printed(call, [&](BIO* out) {
    call.X509V3_EXT_print(out, call.X509_get_ext(certificate, place), 0, 0);
  });
}

std::string time_text(const Functions& call, const ASN1_TIME* time) {
  return printed(call, [&](BIO* out) { call.ASN1_TIME_print(out, time); });
}

}  // namespace

std::string subject_of(const Functions& call, const X509* certificate) {
  return printed(call, [&](BIO* out) {
    call.X509_NAME_print_ex(out, call.X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  });
}

std::string issuer_of(const Functions& call, const X509* certificate) {
  return printed(call, [&](BIO* out) {
    call.X509_NAME_print_ex(out, call.X509_get_issuer_name(certificate), 0, XN_FLAG_RFC2253);
  });
}

std::string why_not_now(const Functions& call, const X509* certificate) {
  if (call.X509_cmp_current_time(call.X509_get0_notAfter(certificate)) < 0)
    return "expired on " + time_text(call, call.X509_get0_notAfter(certificate));
  if (call.X509_cmp_current_time(call.X509_get0_notBefore(certificate)) > 0)
    return "is not valid before " + time_text(call, call.X509_get0_notBefore(certificate));
  return "";
}

std::string why_unverified(const Functions& call, const Unverified& unverified) {
  const auto& [error, certificate, host, authorities] = unverified;
  if (certificate == nullptr)
    return fmt::format("its certificate is not accepted: {}",
                       call.X509_verify_cert_error_string(error));
  const std::string subject = subject_of(call, certificate);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("its certificate ({}) {}: renew it, or set this machine's clock", subject,
                         why_not_now(call, certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("its certificate ({}) {}: set this machine's clock, or wait", subject,
                         why_not_now(call, certificate));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format(
          "its certificate is not for {}, but for {}: use one of these names, or a certificate "
          "that has {} among its names",
          host, names_of(call, certificate), host);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return fmt::format("its certificate ({}) is self-signed and not in {}: add it there", subject,
                         authorities);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return fmt::format(
          "its certificate is signed by {}, which is not in {}: add the certificate of that "
          "authority there, or those in between to the file of its certificate",
          issuer_of(call, certificate), authorities);
    case X509_V_ERR_INVALID_PURPOSE:
      return fmt::format(
          "its certificate ({}) is not for this purpose: extendedKeyUsage needs serverAuth on "
          "the side that listens, clientAuth on the side that connects",
          subject);
    default:
      return fmt::format("its certificate ({}) is not accepted: {}", subject,
                         call.X509_verify_cert_error_string(error));
  }
}

std::string certificate_alert(unsigned long alert) {
  switch (alert) {
    case 42:
      return "bad certificate";
    case 43:
      return "unsupported certificate";
    case 44:
      return "revoked certificate";
    case 45:
      return "expired certificate: renew it, or set the clock there";
    case 46:
      return "unknown certificate";
    case 48:
      return "unknown authority";
    case 116:
      return "certificate required";
    default:
      return "";
  }
}

std::string error_text(const Functions& call, unsigned long error) {
  const char* const reason = call.ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("error {:x} of OpenSSL", error);
}

}  // namespace ddprun::rdzv
