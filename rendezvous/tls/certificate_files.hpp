// Certificates and keys from PEM files into a context of OpenSSL.
#pragma once

#include <string>

#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls.hpp"

namespace ddprun::rdzv {

/// The files of CertificateSettings, as text.
struct PemTexts {
  std::string authorities;
  std::string certificate;
  std::string key;
  std::string warning;  ///< of the key's file; empty: none
};

/// Errors: a whole sentence with the option, the file, the reason and the remedy.
boost::system::result<PemTexts, std::string> read_pem_files(const CertificateSettings& settings);

/// Gives them to a context. Not empty: why not, likewise.
std::string use_certificates(const openssl::Functions& call, SSL_CTX* context,
                             const CertificateSettings& settings, const PemTexts& texts);

}  // namespace ddprun::rdzv
