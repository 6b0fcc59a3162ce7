// Host names and numeric addresses: the only calls of the system's resolver.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace ddprun {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// The stream addresses of `host`, a name or a numeric address, in the system's order of
/// preference; at least one. Asks the resolver, which may take many seconds and can be neither
/// interrupted nor given a deadline: callers give it a thread or a process of its own. Errors:
/// those of resolver_category(), or the system's.
Result<Addresses> look_up_addresses(const std::string& host, std::uint16_t port);

/// The address of a numeric IPv4 or IPv6 host, at once; any other host is an error.
Result<Addresses> numeric_addresses(const std::string& host, std::uint16_t port);

/// The errors of getaddrinfo (EAI_NONAME and others), with its texts.
const boost::system::error_category& resolver_category();

bool is_numeric_address(const std::string& host);

/// "10.0.0.1" or "::1"; empty: it is of neither family.
std::string numeric_host(const sockaddr* addr, socklen_t length);
inline std::string numeric_host(const addrinfo& addr) {
  return numeric_host(addr.ai_addr, addr.ai_addrlen);
}

}  // namespace ddprun
