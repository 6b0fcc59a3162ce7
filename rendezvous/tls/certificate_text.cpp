#include "rendezvous/tls/certificate_text.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"

namespace ddprun::rdzv {
namespace {

using openssl::Bio;
using openssl::Certificate;
using openssl::Functions;

// From openssl/x509_vfy.h.
constexpr long kNoIssuer = 2;
constexpr long kNotYetValid = 9;
constexpr long kExpired = 10;
constexpr long kSelfSigned = 18;
constexpr long kSelfSignedInChain = 19;
constexpr long kNoLocalIssuer = 20;
constexpr long kUnverifiedLeaf = 21;
constexpr long kWrongPurpose = 26;
constexpr long kOtherHost = 62;
constexpr long kOtherAddr = 64;

constexpr int kAlternativeNames = 85;          // of openssl/obj_mac.h
constexpr unsigned long kRfc2253 = 0x1110317;  // of openssl/x509.h
constexpr std::size_t kTextBytesMax = 300;

/// What `print` writes, in one line.
template <class Print>
std::string printed(const Functions& call, Print print) {
  Bio* const memory = call.bio_new(call.memory());
  if (memory == nullptr) return "";
  print(memory);
  std::string text(std::min(call.bio_pending(memory), kTextBytesMax), '\0');
  const int count = call.bio_read(memory, text.data(), static_cast<int>(text.size()));
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  call.bio_free(memory);
  return printable(text);
}

std::string names_of(const Functions& call, const Certificate* certificate) {
  const int place = call.find_extension(certificate, kAlternativeNames, -1);
  if (place < 0) return subject_of(call, certificate);
  return printed(
      call, [&](Bio* out) { call.print_extension(out, call.extension(certificate, place), 0, 0); });
}

std::string time_text(const Functions& call, const openssl::Time* time) {
  return printed(call, [&](Bio* out) { call.print_time(out, time); });
}

}  // namespace

std::string subject_of(const Functions& call, const Certificate* certificate) {
  return printed(call,
                 [&](Bio* out) { call.print_name(out, call.subject(certificate), 0, kRfc2253); });
}

std::string issuer_of(const Functions& call, const Certificate* certificate) {
  return printed(call,
                 [&](Bio* out) { call.print_name(out, call.issuer(certificate), 0, kRfc2253); });
}

std::string why_not_now(const Functions& call, const Certificate* certificate) {
  if (call.compare_with_now(call.not_after(certificate)) < 0)
    return "expired on " + time_text(call, call.not_after(certificate));
  if (call.compare_with_now(call.not_before(certificate)) > 0)
    return "is not valid before " + time_text(call, call.not_before(certificate));
  return "";
}

std::string why_unverified(const Functions& call, const Unverified& unverified) {
  const auto& [error, certificate, host, authorities] = unverified;
  if (certificate == nullptr)
    return fmt::format("its certificate is not accepted: {}", call.verify_error_text(error));
  const std::string subject = subject_of(call, certificate);
  switch (error) {
    case kExpired:
      return fmt::format("its certificate ({}) {}: renew it, or set this machine's clock", subject,
                         why_not_now(call, certificate));
    case kNotYetValid:
      return fmt::format("its certificate ({}) {}: set this machine's clock, or wait", subject,
                         why_not_now(call, certificate));
    case kOtherHost:
    case kOtherAddr:
      return fmt::format(
          "its certificate is not for {}, but for {}: use one of these names, or a certificate "
          "that has {} among its names",
          host, names_of(call, certificate), host);
    case kSelfSigned:
      return fmt::format("its certificate ({}) is self-signed and not in {}: add it there", subject,
                         authorities);
    case kNoIssuer:
    case kSelfSignedInChain:
    case kNoLocalIssuer:
    case kUnverifiedLeaf:
      return fmt::format(
          "its certificate is signed by {}, which is not in {}: add the certificate of that "
          "authority there, or those in between to the file of its certificate",
          issuer_of(call, certificate), authorities);
    case kWrongPurpose:
      return fmt::format(
          "its certificate ({}) is not for this purpose: extendedKeyUsage needs serverAuth on "
          "the side that listens, clientAuth on the side that connects",
          subject);
    default:
      return fmt::format("its certificate ({}) is not accepted: {}", subject,
                         call.verify_error_text(error));
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
  const char* const reason = call.error_reason(error);
  return reason != nullptr ? reason : fmt::format("error {:x} of OpenSSL", error);
}

}  // namespace ddprun::rdzv
