#include "agent/control/port_reservation.hpp"

#include <sys/socket.h>

#include "base/unique_handle.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::agent {

Result<std::uint16_t> reserve_port(const std::string& host, const std::optional<PortRange>& ports) {
  auto listener =
      ports ? rdzv::listen_store(host, ports->first, ports->last) : rdzv::listen_store(host, 0);
  if (!listener) return listener.error();
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(listener->fd.get(), any, &length) != 0) return last_system_error();
  const UniqueFd client(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // To our own backlog: connected at once, or not at all.
  if (!client || connect(client.get(), any, length) != 0) return last_system_error();
  // The side that closes first keeps the port in TIME_WAIT: our end, by the destructor, before the
  // client's.
  UniqueFd accepted(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted) return last_system_error();
  accepted.reset();
  return listener->port;
}

}  // namespace ddprun::agent
