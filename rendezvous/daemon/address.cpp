#include "rendezvous/daemon/address.hpp"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

namespace ddprun::rdzv {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return port;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text, std::string_view default_host) {
  std::string_view host = default_host;
  std::string_view port = text;
  if (text.starts_with('[')) {
    const std::size_t close = text.find("]:");
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    port = text.substr(close + 2);
    if (host.find(':') == std::string_view::npos) return std::nullopt;
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);  // of an IPv6 address without brackets this is no number
  }
  const auto number = parse_port(port);
  if (!number || host.empty() || host.find('\0') != std::string_view::npos) return std::nullopt;
  return Address{std::string(host), *number};
}

std::string to_string(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, address.port)
                  : fmt::format("{}:{}", address.host, address.port);
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "::1"; }

}  // namespace ddprun::rdzv
