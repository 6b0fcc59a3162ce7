#include "rendezvous/store/peer_name.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include <fmt/format.h>

namespace ddprun::rdzv {

std::string peer_name(int fd) {
  sockaddr_storage addr{};
  socklen_t length = sizeof addr;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&addr), &length) == 0) {
    if (addr.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(addr);
      inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
      return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
    }
    if (addr.ss_family == AF_INET6) {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(addr);
      if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // an IPv4 client of a listener at [::]
        inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
        return fmt::format("{}:{}", text.data(), ntohs(v6.sin6_port));
      }
      inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
      return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
    }
  }
  return "of unknown address";
}

}  // namespace ddprun::rdzv
