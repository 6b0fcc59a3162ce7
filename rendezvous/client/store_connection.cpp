#include "rendezvous/client/store_connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/error.hpp"

namespace ddprun::rdzv {
namespace {

/// What one `recv` is given room for. A length that a peer announces reserves no more than this.
constexpr std::size_t kReceiveBytesMax = 1024 * 1024;

ErrorCode system_error(int error) {
  if (error == EPIPE || error == ECONNRESET) return make_error_code(proto::Errc::peer_closed);
  return {error, boost::system::system_category()};
}

/// Waits for `events` of a socket. Errors: timed_out, or the system's.
Result<void> wait_for(int fd, short events, StoreConnection::Deadline deadline) {
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    const auto left = std::max(deadline - now, StoreConnection::Deadline::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    pollfd waited{fd, events, 0};
    const int ready = ppoll(&waited, 1, &limit, nullptr);
    if (ready > 0) return {};
    if (ready == 0) return make_error_code(proto::Errc::timed_out);
    if (errno != EINTR) return system_error(errno);
  }
}

}  // namespace

Result<StoreConnection> StoreConnection::connect(const addrinfo& addr, Deadline deadline) {
  UniqueFd fd(socket(addr.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(errno);
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), addr.ai_addr, addr.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return last_system_error();
    if (const auto ready = wait_for(fd.get(), POLLOUT, deadline); !ready) return ready.error();
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return ErrorCode(error, boost::system::system_category());
  }
  return StoreConnection(std::move(fd));
}

Result<void> StoreConnection::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (const auto ready = wait_for(fd_.get(), POLLOUT, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return system_error(errno);
    }
  }
  return {};
}

Result<void> StoreConnection::receive(std::string& bytes, std::size_t length, Deadline deadline) {
  while (length > 0) {
    const std::size_t before = bytes.size();
    const std::size_t room = std::min(length, kReceiveBytesMax);
    bytes.resize(before + room);
    const ssize_t received = ::recv(fd_.get(), bytes.data() + before, room, 0);
    const int error = errno;
    bytes.resize(before + (received > 0 ? static_cast<std::size_t>(received) : 0));
    if (received > 0) {
      length -= static_cast<std::size_t>(received);
    } else if (received == 0) {
      return make_error_code(proto::Errc::peer_closed);
    } else if (error == EAGAIN) {
      if (const auto ready = wait_for(fd_.get(), POLLIN, deadline); !ready) return ready;
    } else if (error != EINTR) {
      return system_error(error);
    }
  }
  return {};
}

}  // namespace ddprun::rdzv
