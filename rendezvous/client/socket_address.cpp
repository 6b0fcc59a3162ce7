#include "rendezvous/client/socket_address.hpp"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/endpoint.hpp"

namespace ddprun::rdzv {

void set_port(sockaddr_storage& addr, std::uint16_t port) {
  if (addr.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(addr).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(addr).sin_port = htons(port);
  }
}

bool is_refused_by_icmp(int socket) {
  alignas(cmsghdr) std::array<char, 512> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return false;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    const bool is_error = (one->cmsg_level == SOL_IP && one->cmsg_type == IP_RECVERR) ||
                          (one->cmsg_level == SOL_IPV6 && one->cmsg_type == IPV6_RECVERR);
    if (!is_error) continue;
    const auto* error = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(one));
    return error->ee_origin == SO_EE_ORIGIN_ICMP || error->ee_origin == SO_EE_ORIGIN_ICMP6;
  }
  return false;
}

std::string local_addr_of(int socket) {
  sockaddr_storage addr{};
  socklen_t length = sizeof addr;
  auto* const any = reinterpret_cast<sockaddr*>(&addr);
  if (getsockname(socket, any, &length) != 0) return "";
  return numeric_host(any, length);
}

Result<UniqueFd> connect_to_socket_file(const std::string& path) {
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.size() >= sizeof addr.sun_path)
    return ErrorCode(ENAMETOOLONG, boost::system::system_category());
  std::memcpy(addr.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) != 0)
    return last_system_error();
  return fd;
}

}  // namespace ddprun::rdzv
