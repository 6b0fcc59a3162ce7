// A TCP socket on a free port of loopback.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "base/unique_handle.hpp"

namespace ddprun::test {

struct BoundSocket {
  UniqueFd socket;  ///< bound; it neither listens nor is connected
  std::uint16_t port = 0;
};

inline BoundSocket bound_socket() {
  BoundSocket bound{UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof addr;
  auto* const any = reinterpret_cast<sockaddr*>(&addr);
  REQUIRE(bind(bound.socket.get(), any, length) == 0);
  REQUIRE(getsockname(bound.socket.get(), any, &length) == 0);
  bound.port = ntohs(addr.sin_port);
  return bound;
}

}  // namespace ddprun::test
