// A socket that sends whatever a test wants, and reads with a deadline. Not a good client, on
// purpose.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/unique_handle.hpp"

namespace ddprun::test {

class RawClient {
 public:
  /// Connects to a loopback port. `receive_bytes` is the size of the socket's receive buffer; 0
  /// leaves the system's.
  explicit RawClient(std::uint16_t port, int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes != 0)
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) != 0)
      throw std::runtime_error("connect");
  }

  /// False if the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Sends without waiting. Returns the bytes that the socket took.
  std::size_t send_some(std::string_view bytes) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  /// Exactly `length` bytes; fewer if the peer closes or the time is over.
  std::string receive(std::size_t length,
                      std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    std::string bytes;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (bytes.size() < length && readable(deadline)) {
      std::string piece(std::min<std::size_t>(length - bytes.size(), 1 << 20), '\0');
      const ssize_t received = recv(fd_.get(), piece.data(), piece.size(), 0);
      if (received <= 0) break;
      bytes.append(piece, 0, static_cast<std::size_t>(received));
    }
    return bytes;
  }
  /// Waits until the peer closes; false if it sends something, or nothing happens in 20 s.
  bool closed() {
    if (!readable(std::chrono::steady_clock::now() + std::chrono::seconds(20))) return false;
    char byte = 0;
    return recv(fd_.get(), &byte, 1, 0) <= 0;
  }
  /// True if nothing can be read at this moment.
  bool silent() {
    pollfd waited{fd_.get(), POLLIN, 0};
    return poll(&waited, 1, 0) == 0;
  }
  void reset() {
    const linger hard{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    fd_.reset();
  }

 private:
  bool readable(std::chrono::steady_clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited{fd_.get(), POLLIN, 0};
    return left.count() > 0 && poll(&waited, 1, static_cast<int>(left.count())) == 1;
  }

  UniqueFd fd_;
};

}  // namespace ddprun::test
