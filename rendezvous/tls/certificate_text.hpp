// What people are told of certificates: their subjects and names, until when they are valid, and
// why one is not accepted.
#pragma once

#include <string>

#include "rendezvous/tls/openssl.hpp"

namespace ddprun::rdzv {

/// Such as "CN=node1,O=lab".
std::string subject_of(const openssl::Functions& call, const X509* certificate);
std::string issuer_of(const openssl::Functions& call, const X509* certificate);
/// "expired on DATE" or "is not valid before DATE" by this machine's clock; empty: neither.
std::string why_not_now(const openssl::Functions& call, const X509* certificate);

struct Unverified {
  long error = 0;                     ///< of openssl/x509_vfy.h
  const X509* certificate = nullptr;  ///< which it is about; null: none
  std::string host;                   ///< that was asked for; empty: none was
  std::string authorities;            ///< where they are from, for people
};
/// What is wrong with the certificate of the other end, and what to do.
std::string why_unverified(const openssl::Functions& call, const Unverified& unverified);

/// What the alert of another end (RFC 8446, section 6) says of the certificate that it was given.
/// Empty: it is not about a certificate.
std::string certificate_alert(unsigned long alert);

/// The text of OpenSSL's error, such as "ee key too small".
std::string error_text(const openssl::Functions& call, unsigned long error);

}  // namespace ddprun::rdzv
