// What an etcd of version 2 answers to requests of version 3, and so does one of version 3 without
// its JSON gateway: there is no such page.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_handle.hpp"
#include "tests/support/bound_socket.hpp"

namespace ddprun::test {

class OldEtcd {
 public:
  OldEtcd() {
    REQUIRE(listen(listener_.socket.get(), 8) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~OldEtcd() {
    is_over_ = true;
    thread_.join();
  }
  OldEtcd(const OldEtcd&) = delete;
  OldEtcd& operator=(const OldEtcd&) = delete;

  /// HOST:PORT.
  [[nodiscard]] std::string place() const { return "127.0.0.1:" + std::to_string(listener_.port); }

 private:
  [[nodiscard]] static bool is_readable(int fd) {
    pollfd waited{fd, POLLIN, 0};
    return poll(&waited, 1, 20) > 0;
  }
  void serve() const {
    while (!is_over_) {
      if (!is_readable(listener_.socket.get())) continue;
      const UniqueFd asker(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (asker) answer(asker.get());
    }
  }
  /// The bodies of its requests are JSON objects.
  void answer(int asker) const {
    constexpr std::string_view kAnswer =
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Connection: close\r\nContent-Length: 19\r\n\r\n404 page not found\n";
    std::string request;
    std::array<char, 4096> buffer{};
    while (!is_over_ && !request.ends_with('}')) {
      if (!is_readable(asker)) continue;
      const ssize_t count = read(asker, buffer.data(), buffer.size());
      if (count <= 0) return;
      request.append(buffer.data(), static_cast<std::size_t>(count));
    }
    [[maybe_unused]] const auto sent = send(asker, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
  }

  const BoundSocket listener_ = bound_socket();
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace ddprun::test
