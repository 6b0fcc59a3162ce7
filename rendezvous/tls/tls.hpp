// TLS for control connections, by an OpenSSL that is opened at run time. Its ends have no sockets.
//
// With keys from the job's secret and no certificate: TLS 1.3 (RFC 8446), an external pre-shared
// key with an ephemeral Diffie-Hellman exchange (section 2.2), so that a secret that becomes known
// later opens no recorded connection. Or with certificates in files.
#pragma once

#include <memory>
#include <string>

#include <boost/system/result.hpp>

#include "proto/encryption.hpp"

namespace ddprun::rdzv {

/// Opens OpenSSL at the first call; it stays open until the process ends. Errors: a whole sentence:
/// the reason and the remedy.
boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string> open_tls();

/// In PEM.
struct PemFile {
  std::string option;  ///< by which the user names it, such as "--tls-ca"
  std::string path;    ///< empty: not given
};

struct CertificateSettings {
  /// For a client: the authorities that may have signed a service's certificate. For a service:
  /// those that must have signed a client's; not given: clients need none.
  PemFile authorities;
  /// This side's certificate, and behind it those that lead to its authority. A service needs one.
  PemFile certificate;
  PemFile key;  ///< of that certificate, without a pass phrase
  /// A client without a file of authorities trusts those of this machine's OpenSSL.
  bool trusts_system = false;
  bool allows_tls12 = false;  ///< else only TLS 1.3
  std::string where;          ///< behind options that are to be added, such as " to --rdzv-conf"
};

struct CertificateTls {
  std::shared_ptr<const proto::Encrypter> encrypter;
  std::string warning;  ///< a line about the files; empty: none
};

/// Reads the files, now and never again. Errors: a whole sentence, which begins with the option
/// that it is about, if it is about one.
boost::system::result<CertificateTls, std::string> open_tls(const CertificateSettings& settings);

}  // namespace ddprun::rdzv
