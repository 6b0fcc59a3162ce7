// The command line of rdzvd.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "base/endpoint.hpp"
#include "base/texts/log_level.hpp"
#include "rendezvous/store/store_settings.hpp"

namespace ddprun::rdzv {

using ddprun::LogLevel;

inline constexpr int kExitListen = 1;
inline constexpr int kExitUsage = 2;

struct DaemonOptions {
  Endpoint listen;  ///< with its port
  std::chrono::milliseconds listen_timeout{30'000};
  LogLevel log_level = LogLevel::warning;
  std::chrono::seconds stats_interval{0};  ///< 0: none
  std::string secret;                      ///< that agents must prove; empty: none
  std::string state_dir;                   ///< for the journal of the jobs; empty: none
  StoreSettings store;
};

/// Nothing is to be served: print `text` (to stdout if the code is 0) and leave.
struct DaemonExit {
  int code = 0;
  std::string text;
};

/// `arguments` are those behind our own name. Looks up the names of users that --allow-uid gives,
/// and reads the file that --secret-file names.
std::variant<DaemonOptions, DaemonExit> parse_daemon_options(
    const std::vector<std::string>& arguments);

}  // namespace ddprun::rdzv
