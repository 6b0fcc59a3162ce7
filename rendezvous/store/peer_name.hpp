// The name of the other end of a socket, for log lines.
#pragma once

#include <string>

namespace ddprun::rdzv {

/// "127.0.0.1:40112" or "[::1]:40112"; "of unknown address" once the peer is gone. Looks nothing
/// up.
std::string peer_name(int fd);

}  // namespace ddprun::rdzv
