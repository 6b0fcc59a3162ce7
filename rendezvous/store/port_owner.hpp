// The process that has a TCP port which we wanted, for error texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::rdzv {

/// The process that listens on `port` of this machine, or is connected from it:
/// "python3 train.py, pid 4242". Where we may not see the process, its user:
/// "a process of uid 1001". None if the port is free again. Reads /proc; a port in use is an
/// error anyway, so this may take milliseconds.
std::optional<std::string> port_owner(std::uint16_t port);

/// One socket of a table in the format of /proc/net/tcp.
struct PortSocket {
  std::uint64_t inode = 0;
  std::uint64_t uid = 0;
  bool listening = false;
};

/// The socket that has local port `port`: one that listens before one that does not. Lines that
/// cannot be read are passed over. Pure.
std::optional<PortSocket> find_port(std::string_view table, std::uint16_t port);

}  // namespace ddprun::rdzv
