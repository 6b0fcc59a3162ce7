// listen_store: the listening socket of a store, before there is a server for it.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>

#include "base/endpoint.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::rdzv {
namespace {

/// The kernel cuts this to net.core.somaxconn. Short queues reset connections when thousands of
/// workers start at once.
constexpr int kBacklog = 65535;

bool enable(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage addr{};
  socklen_t length = sizeof addr;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&addr), &length) != 0) return 0;
  return ntohs(addr.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(addr).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(addr).sin_port);
}

}  // namespace

Result<StoreListener> listen_store(const std::string& host, std::uint16_t port) {
  const Result<Addresses> found = numeric_addresses(host, port);
  if (!found) return ErrorCode(EINVAL, boost::system::system_category());
  const addrinfo* const addr = found->get();

  StoreListener listener;
  listener.fd.reset(socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = listener.fd.get();
  if (fd < 0) return last_system_error();
  // A port is free although its last connections are in TIME_WAIT.
  if (!enable(fd, SOL_SOCKET, SO_REUSEADDR, 1)) return last_system_error();
  if (addr->ai_family == AF_INET6 && !enable(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0))
    return last_system_error();
  if (bind(fd, addr->ai_addr, addr->ai_addrlen) != 0 || listen(fd, kBacklog) != 0)
    return last_system_error();
  listener.addr = host;
  listener.port = bound_port(fd);
  return listener;
}

Result<StoreListener> listen_store(const std::string& host, std::uint16_t first,
                                   std::uint16_t last) {
  if (first == 0 || first > last) return ErrorCode(EINVAL, boost::system::system_category());
  // Jobs that start together on one machine with one range should not meet at the same ports.
  const unsigned count = last - first + 1U;
  const unsigned start = std::random_device{}() % count;
  for (unsigned i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(first + (start + i) % count);
    Result<StoreListener> listener = listen_store(host, port);
    if (listener || listener.error().value() != EADDRINUSE) return listener;
  }
  return ErrorCode(EADDRINUSE, boost::system::system_category());
}

}  // namespace ddprun::rdzv
