// The command lines by which ddprun starts itself on other hosts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// The first argument of a ddprun that was started through ssh. The second one is the path of the
/// socket that ssh forwards; it reads all else from its stdin.
inline constexpr std::string_view kNodeArgument = "--ssh-node";

/// Where on the host the sockets are that ssh forwards, and how their names begin.
inline constexpr std::string_view kSocketFolder = "/tmp";
inline constexpr std::string_view kSocketPrefix = "ddprun-ssh-";

/// How long a network may be silent before ssh on this side ends the connection:
/// kAliveSeconds x kAliveTimes.
inline constexpr int kAliveSeconds = 5;
inline constexpr int kAliveTimes = 3;
/// For the connection to be made, unless --ssh says otherwise.
inline constexpr int kConnectSeconds = 30;

struct SshCommand {
  std::vector<std::string> ssh;  ///< --ssh, taken apart; at least the program
  std::string remote_path;       ///< --remote-path; empty: not given
  std::string own_path;          ///< of the running ddprun; empty: not known
  std::string typed = "ssh";     ///< --ssh as given, for messages
};

/// --ssh taken apart as a shell would: blanks separate words; quotes and backslashes keep them.
/// `spelling` is for messages. Errors: a quote is not closed; no word.
LaunchResult<std::vector<std::string>> words_of_command(std::string_view text,
                                                        std::string_view spelling);

/// What the host's login shell is given. It starts ddprun: the one of --remote-path, else the one
/// with this program's own path, else the one in its PATH. Where there is none it removes the
/// socket, and ends with 127.
std::string remote_command(const SshCommand& command, const std::string& socket);

/// The whole command line. Connections to `socket` on the host reach `port` on this machine.
std::vector<std::string> ssh_arguments(const SshCommand& command, const std::string& host,
                                       const std::string& socket, std::uint16_t port);

}  // namespace ddprun::launcher
