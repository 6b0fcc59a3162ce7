#include "base/endpoint.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/trimmed.hpp"

namespace ddprun {

namespace {

bool host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == ':' || c == '-' || c == '%';  // `%`: the interface of an IPv6 address
}

bool is_ipv6_address(std::string_view text) {
  const auto zone = text.find('%');
  if (zone != std::string_view::npos && text.find(':', zone) != std::string_view::npos)
    return false;
  const std::string address(text.substr(0, zone));
  in6_addr ignored;
  return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

/// The address and the port of `::1:29400`; none: it is a host, an address, or has brackets.
std::optional<std::pair<std::string_view, std::string_view>> split_bare_address(
    std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || text.starts_with('[') || is_ipv6_address(text))
    return std::nullopt;
  const std::string_view host = text.substr(0, colon);
  if (!is_ipv6_address(host)) return std::nullopt;
  return std::pair(host, text.substr(colon + 1));
}

}  // namespace

boost::system::result<Endpoint, std::string> parse_endpoint(std::string_view text) {
  text = trimmed(text);
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return "the bracket is not closed";
    host = text.substr(1, close - 1);
    const auto rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return "the text behind ] is not a :PORT";
    if (!rest.empty()) port = rest.substr(1);
  } else if (const auto colon = text.rfind(':');
             colon != std::string_view::npos && text.find(':') == colon) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (const auto split = split_bare_address(text))
    return "an IPv6 address with a port has brackets: [" + std::string(split->first) +
           "]:" + std::string(split->second);
  if (host.empty()) return "the host is missing";
  if (!std::all_of(host.begin(), host.end(), host_character))
    return "'" + std::string(host) + "' is not a host name";
  if (!port) return Endpoint{std::string(host), std::nullopt};
  std::uint16_t number = 0;
  const char* const end = port->data() + port->size();
  const auto [stop, error] = std::from_chars(port->data(), end, number);
  if (error != std::errc() || stop != end)
    return "'" + std::string(*port) + "' is not a port (0 to 65535)";
  return Endpoint{std::string(host), number};
}

std::string to_string(const Endpoint& endpoint) {
  const bool brackets = endpoint.host.find(':') != std::string::npos;
  return (brackets ? "[" + endpoint.host + "]" : endpoint.host) +
         (endpoint.port ? ":" + std::to_string(*endpoint.port) : "");
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "::1"; }

bool leads_to_itself(std::string_view host) { return host == "localhost" || is_loopback(host); }

namespace {

class ResolverCategory final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "getaddrinfo"; }
  std::string message(int code) const override { return gai_strerror(code); }
};

Result<Addresses> ask(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code == EAI_SYSTEM) return last_system_error();
  if (code != 0) return ErrorCode(code, resolver_category());
  return Addresses(found, &freeaddrinfo);
}

}  // namespace

Result<Addresses> look_up_addresses(const std::string& host, std::uint16_t port) {
  return ask(host, port, 0);
}

Result<Addresses> numeric_addresses(const std::string& host, std::uint16_t port) {
  return ask(host, port, AI_NUMERICHOST);
}

const boost::system::error_category& resolver_category() {
  static const ResolverCategory category;
  return category;
}

bool is_numeric_address(const std::string& host) {
  in6_addr addr;  // large enough for both families
  return inet_pton(AF_INET, host.c_str(), &addr) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &addr) == 1;
}

std::string numeric_host(const sockaddr* addr, socklen_t length) {
  char host[NI_MAXHOST] = "";
  const int failed = getnameinfo(addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

}  // namespace ddprun
