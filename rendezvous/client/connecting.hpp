// System calls of a connection that is being made.
#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

/// Of a connect that was refused: whether a message of ICMP did that, which only firewalls send. A
/// host without a listener answers with a reset. Linux before 5.8 does not tell.
bool is_refused_by_icmp(int socket);

/// A connection to the Unix socket at `path`, which does not block. Errors: the system's.
Result<UniqueFd> connect_to_socket_file(const std::string& path);

}  // namespace ddprun::rdzv
