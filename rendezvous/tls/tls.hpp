// TLS 1.3 (RFC 8446) for control connections, with keys from the job's secret and no certificate:
// an external pre-shared key with an ephemeral Diffie-Hellman exchange (section 2.2), so that a
// secret that becomes known later opens no recorded connection. No sockets.
#pragma once

#include <memory>
#include <string>

#include <boost/system/result.hpp>

#include "proto/encryption.hpp"

namespace ddprun::rdzv {

/// Opens OpenSSL at the first call; it stays open until the process ends. Errors: a whole sentence:
/// the reason and the remedy.
boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string> open_tls();

}  // namespace ddprun::rdzv
