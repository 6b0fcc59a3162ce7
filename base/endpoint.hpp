// HOST:PORT as people write it, the same in every option of every program. Pure.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

}  // namespace ddprun
