// Both ends of a TCP connection as one text. Two programs with the same text hold the two ends of
// one connection; with a forwarder, a proxy or an address translation between them they differ.
#pragma once

#include <string>

namespace ddprun {

enum class ConnectionSide { connected, accepted };

/// The end that connected, then the end that accepted: "10.0.0.2:41234>10.0.0.1:29400". Loopback
/// addresses are not unique: their text also has the kernel's boot id and the network namespace.
/// Empty: not a connected TCP socket, or its other end is gone.
std::string connection_path(int socket, ConnectionSide ours);

}  // namespace ddprun
