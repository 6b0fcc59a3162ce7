// How a client gets into etcd: by HTTPS, as a user.
#pragma once

#include <memory>
#include <string>

#include "proto/encryption.hpp"

namespace ddprun::rdzv {

/// What people type to get in, for texts. These are rdzvd's.
struct EtcdWords {
  std::string user = "--etcd-user";
  std::string password_file = "--etcd-password-file";
  std::string where;  ///< behind these two, such as " in --rdzv-conf"
  std::string use_tls = "write etcds:// in place of etcd:// in --journal";
  std::string use_no_tls = "write etcd:// in place of etcds:// in --journal";
};

struct EtcdAccess {
  /// Its clients speak TLS with etcd (rendezvous/tls/tls.hpp: open_tls with certificates). Null:
  /// plain HTTP.
  std::shared_ptr<const proto::Encrypter> encrypter;
  std::string user;  ///< empty: none
  std::string password;
  EtcdWords words;
};

}  // namespace ddprun::rdzv
