#include "base/socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/endpoint.hpp"
#include "base/small_file.hpp"
#include "base/trimmed.hpp"

namespace ddprun {

namespace {

/// Without a scope, which is another on each machine. An IPv4 address is written as such also where
/// a socket of IPv6 has it. Without a host: no address of TCP.
Endpoint endpoint_of(const sockaddr_storage& addr) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (addr.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(addr);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  if (addr.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(addr);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return {text.data(), ntohs(v6.sin6_port)};
}

/// Tells the loopback addresses of this machine, or container, from those of another one.
std::string this_host() {
  std::array<char, 64> space{};
  const ssize_t length = readlink("/proc/self/ns/net", space.data(), space.size());
  return std::string(trimmed(read_small_file("/proc/sys/kernel/random/boot_id").value_or(""))) +
         "/" + std::string(space.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace

std::string connection_path(int socket, ConnectionSide ours) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_length) != 0)
    return "";
  const bool connected = ours == ConnectionSide::connected;
  const Endpoint from = endpoint_of(connected ? own : other);
  const Endpoint to = endpoint_of(connected ? other : own);
  if (from.host.empty() || to.host.empty()) return "";
  const std::string path = to_string(from) + ">" + to_string(to);
  static const std::string host = this_host();
  return is_loopback(from.host) || is_loopback(to.host) ? path + " at " + host : path;
}

}  // namespace ddprun
