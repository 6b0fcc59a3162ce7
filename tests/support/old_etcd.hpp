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

namespace ddprun::test {

class OldEtcd {
 public:
  OldEtcd() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof addr;
    auto* const any = reinterpret_cast<sockaddr*>(&addr);
    REQUIRE(bind(listener_.get(), any, length) == 0);
    REQUIRE(listen(listener_.get(), 8) == 0);
    REQUIRE(getsockname(listener_.get(), any, &length) == 0);
    place_ = "127.0.0.1:" + std::to_string(ntohs(addr.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~OldEtcd() {
    is_over_ = true;
    thread_.join();
  }
  OldEtcd(const OldEtcd&) = delete;
  OldEtcd& operator=(const OldEtcd&) = delete;

  /// HOST:PORT.
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  [[nodiscard]] static bool is_readable(int fd) {
    pollfd waited{fd, POLLIN, 0};
    return poll(&waited, 1, 20) > 0;
  }
  void serve() const {
    while (!is_over_) {
      if (!is_readable(listener_.get())) continue;
      const UniqueFd asker(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
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

  const UniqueFd listener_;
  std::string place_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace ddprun::test
