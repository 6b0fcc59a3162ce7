// HOST:PORT as people write it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::rdzv {

struct Address {
  std::string host;  ///< a name, or a numeric address without brackets
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

/// Reads "host:port", "1.2.3.4:port", "[::1]:port", and "port" alone, which is on `default_host`.
/// None if it is none of these.
std::optional<Address> parse_address(std::string_view text, std::string_view default_host);

/// The reverse: "127.0.0.1:40311", "[::1]:40311".
std::string to_string(const Address& address);

/// A numeric address that only this machine reaches.
bool is_loopback(std::string_view host);

}  // namespace ddprun::rdzv
