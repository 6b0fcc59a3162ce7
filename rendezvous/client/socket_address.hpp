// What a connection needs beyond the resolver's addresses: another port, a socket file, which side
// refused it, and our own address.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

/// Sets the port in an address of IPv4 or IPv6.
void set_port(sockaddr_storage& addr, std::uint16_t port);

/// Whether a connect was refused by a message of ICMP, which only firewalls send. A host without a
/// listener answers with a reset. Linux before 5.8 does not tell.
bool is_refused_by_icmp(int socket);

/// A connection to the Unix socket at `path`, which does not block. Errors: the system's.
Result<UniqueFd> connect_to_socket_file(const std::string& path);

/// The numeric address of this end. Empty: it is no connected socket of IPv4 or IPv6.
std::string local_addr_of(int socket);

}  // namespace ddprun::rdzv
