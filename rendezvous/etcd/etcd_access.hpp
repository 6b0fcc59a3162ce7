// How a client gets into etcd: by HTTPS, as a user.
#pragma once

#include <memory>
#include <string>

#include "proto/encryption.hpp"

namespace ddprun::rdzv {

struct EtcdAccess {
  /// Its clients speak TLS with etcd (rendezvous/tls/tls.hpp: open_tls with certificates). Null:
  /// plain HTTP.
  std::shared_ptr<const proto::Encrypter> encrypter;
  std::string user;  ///< empty: none
  std::string password;
};

}  // namespace ddprun::rdzv
