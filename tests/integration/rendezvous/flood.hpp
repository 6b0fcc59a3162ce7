// Thousands of connections that say nothing, or do not finish their first frame. Each that the
// other side closes is replaced.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_handle.hpp"

namespace ddprun::test {

class Flood {
 public:
  static constexpr std::size_t kConnections = 3'000;

  /// From that loopback address.
  Flood(std::uint16_t port, const char* from, std::string first_bytes)
      : first_bytes_(std::move(first_bytes)) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    REQUIRE(files.rlim_cur > 2 * kConnections);  // both ends are here
    to_ = loopback("127.0.0.1", port);
    from_ = loopback(from, 0);
    thread_ = std::thread([this] { run(); });
  }
  ~Flood() {
    stopped_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  [[nodiscard]] std::size_t replaced() const { return replaced_; }

 private:
  static constexpr std::size_t kAtOnce = 300;

  static sockaddr_in loopback(const char* host, std::uint16_t port) {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    inet_pton(AF_INET, host, &addr.sin_addr);
    return addr;
  }
  void connect_one() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&from_), sizeof from_) != 0) return;
    static_cast<void>(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to_), sizeof to_));
    const short wanted = first_bytes_.empty() ? 0 : POLLOUT;
    polled_.push_back({fd.get(), static_cast<short>(wanted | POLLRDHUP), 0});
    open_.push_back(std::move(fd));
  }
  void run() {
    while (!stopped_) {
      for (std::size_t i = 0; i < kAtOnce && open_.size() < kConnections; ++i) connect_one();
      poll(polled_.data(), polled_.size(), 20);
      for (std::size_t i = polled_.size(); i-- > 0;) {
        pollfd& one = polled_[i];
        if ((one.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0) {
          std::swap(one, polled_.back());
          std::swap(open_[i], open_.back());
          polled_.pop_back();
          open_.pop_back();
          ++replaced_;
        } else if ((one.revents & POLLOUT) != 0) {
          send(one.fd, first_bytes_.data(), first_bytes_.size(), MSG_NOSIGNAL);
          one.events = POLLRDHUP;
        }
      }
    }
  }

  const std::string first_bytes_;
  sockaddr_in to_{};
  sockaddr_in from_{};
  std::vector<pollfd> polled_;
  std::vector<UniqueFd> open_;
  std::atomic<std::size_t> replaced_{0};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace ddprun::test
