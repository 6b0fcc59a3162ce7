// HOST:PORT as people write it, in every program alike, and all calls of the system's resolver.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/system/result.hpp>

#include "base/result.hpp"

namespace ddprun {

/// A constructor instead of an aggregate: a result must not mistake an error's text for a host.
struct Endpoint {
  Endpoint() = default;
  Endpoint(std::string a_host, std::optional<std::uint16_t> a_port)
      : host(std::move(a_host)), port(a_port) {}

  std::string host;                   ///< a name, or a numeric address without brackets
  std::optional<std::uint16_t> port;  ///< empty: not given
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Reads `host`, `host:port`, `[v6]`, `[v6]:port` and `v6`, with blanks around it. The error is why
/// it is none of these, as the end of a message.
boost::system::result<Endpoint, std::string> parse_endpoint(std::string_view text);

/// The reverse: "127.0.0.1:40311", "[::1]:40311", "host".
std::string to_string(const Endpoint& endpoint);

/// A numeric address that only this machine reaches.
bool is_loopback(std::string_view host);
/// A loopback address or `localhost`: each machine meets only itself there.
bool leads_to_itself(std::string_view host);

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
