// What a launcher of --hosts does, decided before anything starts; and what each of its hosts makes
// of the command line. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/options.hpp"
#include "launcher/ssh/hosts.hpp"
#include "launcher/ssh/node_messages.hpp"
#include "launcher/ssh/ssh_command.hpp"

namespace ddprun::launcher {

struct SshLaunch {
  std::vector<SshHost> hosts;
  SshCommand command;
  /// What all hosts are told; rank, host, slots and socket are each one's own.
  NodePlan plan;
  std::string socket_base;  ///< of the sockets' paths on the hosts; the rank follows
  std::chrono::milliseconds lease{0};
  machine::StopSettings stop;
  std::string report_file;  ///< empty: none
  std::string error_file;   ///< empty: none
  LogLevel log_level = LogLevel::warning;
  std::vector<std::string> warnings;
};

/// What make_ssh_launch asks of the machine.
struct SshFacts {
  std::vector<std::string> command;  ///< of this ddprun
  std::string folder;                ///< empty: deleted
  std::string own_path;              ///< of this program; empty: not known
  std::string random;                ///< at least 128 bits, as letters and digits; for names
  std::string secret;                ///< at least 128 bits, as letters and digits
  std::string new_run_id;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  /// The bytes of a file, or why it cannot be read.
  std::function<boost::system::result<std::string, std::string>(const std::string&)> read_file;
};

LaunchResult<SshLaunch> make_ssh_launch(const LaunchOptions& options,
                                        const Environment& environment, const SshFacts& facts);

/// The plan for one host.
NodePlan plan_for(const SshLaunch& launch, std::size_t host);

/// --dry-run: what would be started, ends with a newline.
std::string ssh_dry_run_text(const SshLaunch& launch);
/// What would be started, as one JSON object; ends with a newline.
std::string ssh_dry_run_json(const SshLaunch& launch);

/// On a host: the options of the launcher's command line, as they are for this node. `addr` is
/// numeric: by which other hosts reach this one.
LaunchOptions options_on_node(LaunchOptions options, const NodePlan& plan, const std::string& addr);

/// The names that are always passed; one that ends with * stands for all that begin so.
std::span<const std::string_view> passed_by_default();

/// NAME=VALUE of the variables that are passed: those of passed_by_default(), and those of
/// --pass-env, `NAME,PREFIX*,NAME=VALUE`. Errors: a name that is none.
LaunchResult<std::vector<std::string>> passed_environment(const Environment& environment,
                                                          std::string_view pass_env);

}  // namespace ddprun::launcher
