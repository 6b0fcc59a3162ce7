// A port that is not a store's own: a test hands its connections on.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "base/unique_handle.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/integration/rendezvous/served.hpp"

namespace ddprun::test {

class Elsewhere {
 public:
  [[nodiscard]] std::uint16_t port() const { return listener_.port; }
  /// The next connection, as the kernel gives it: its calls block. None: there was none in 20 s.
  [[nodiscard]] UniqueFd accept() const {
    pollfd waited{listener_.fd.get(), POLLIN, 0};
    if (poll(&waited, 1, 20'000) != 1) return UniqueFd();
    return UniqueFd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  rdzv::StoreListener listener_ = listener();
};

}  // namespace ddprun::test
