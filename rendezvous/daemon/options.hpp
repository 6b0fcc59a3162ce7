// The command line of rdzvd.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/endpoint.hpp"
#include "proto/encryption.hpp"
#include "rendezvous/etcd/etcd_access.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "rendezvous/service/tenants.hpp"
#include "rendezvous/store/store_settings.hpp"
#include "texts/log_level.hpp"

namespace ddprun::rdzv {

using ddprun::LogLevel;

inline constexpr int kExitListen = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoJob = 1;  ///< of an observer: no such job, or the node is not given up

struct DaemonOptions {
  Endpoint listen;  ///< with its port
  std::chrono::milliseconds listen_timeout{30'000};
  LogLevel log_level = LogLevel::warning;
  std::chrono::seconds stats_interval{0};             ///< 0: none
  std::string secret;                                 ///< that agents must prove; empty: none
  std::string secret_dir;                             ///< with one for each tenant; empty: none
  TenantLimits tenant_limits;                         ///< with `secret_dir`
  std::shared_ptr<const proto::Encrypter> encrypter;  ///< for agents and observers; null: none
  std::string state_dir;                              ///< for the journal of the jobs; empty: none
  std::optional<EtcdPlace> etcd;                      ///< for that, too; not both
  EtcdAccess etcd_access;                             ///< to that etcd
  StoreSettings store;
  std::vector<std::string> warnings;  ///< to print once
};

/// Not to serve, but to ask a running rdzvd, or the rendezvous in an agent.
struct ObserverOptions {
  Endpoint endpoint;             ///< with its port
  std::string run_id;            ///< of the job that it is about; empty or PREFIX*: of many
  std::string fence;             ///< the node to give up; empty: none, only the status is asked for
  std::string secret;            ///< empty: none
  std::string secret_file;       ///< that it is from
  bool secret_is_named = false;  ///< by --secret-file
  std::shared_ptr<const proto::Encrypter> encrypter;  ///< null: none
  bool json = false;
  std::vector<std::string> warnings;  ///< to print once
};

/// Nothing is to be served: print `text` (to stdout if the code is 0) and leave.
struct DaemonExit {
  int code = 0;
  std::string text;
};

/// `arguments` are those behind our own name. Looks up the names of users that --allow-uid gives,
/// reads the files of the secret and of certificates and, for TLS, opens OpenSSL.
std::variant<DaemonOptions, ObserverOptions, DaemonExit> parse_daemon_options(
    const std::vector<std::string>& arguments);

}  // namespace ddprun::rdzv
