#include "rendezvous/store/store_loop.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/system/system_error.hpp>

#include "proto/assert.hpp"
#include "rendezvous/store/peer_name.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kEventsMax = 256;
constexpr std::size_t kAcceptsMax =
    256;  ///< in one go, so that a storm of connects delays nobody for long
constexpr std::size_t kPiecesMax = 64;  ///< of one send
constexpr int kAcceptRetryMs = 100;     ///< while the process has no descriptor left

constexpr std::uint64_t kListenerEvent = ~0ULL;
constexpr std::uint64_t kStopEvent = ~0ULL - 1;

[[noreturn]] void fail(const char* what) {
  throw boost::system::system_error(errno, boost::system::system_category(), what);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// Sends as much as the socket takes. False: the client is gone.
bool send_from(ReplyBuffer& replies, int fd) {
  while (!replies.empty()) {
    std::array<iovec, kPiecesMax> pieces;
    const std::size_t filled = replies.gather(pieces);
    ssize_t sent = 0;
    if (filled == 1) {  // nearly always, and send is the cheaper call
      sent = send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = filled;
      sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    if (sent < 0) return would_block(errno);
    replies.consume(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

StoreLoop::StoreLoop(UniqueFd listener, StoreSettings settings)
    : settings_(std::move(settings)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      core_(settings_.waited_keys_max),
      read_buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {
  if (!epoll_ || !stop_) fail("the store needs two descriptors");
  if (!control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, kListenerEvent) ||
      !control(EPOLL_CTL_ADD, stop_.get(), EPOLLIN, kStopEvent)) {
    fail("the store cannot watch its sockets");
  }
}

StoreLoop::~StoreLoop() = default;

void StoreLoop::stop() {
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its maximum.
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
}

bool StoreLoop::control(int operation, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void StoreLoop::run() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), kEventsMax, accepting_ ? -1 : kAcceptRetryMs);
    DDPRUN_ASSERT(count >= 0 || errno == EINTR, "the store's own descriptors are open");
    if (count == 0) resume_accepting();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kStopEvent) return;
      if (event.data.u64 == kListenerEvent) {
        accept_clients();
      } else {
        handle(static_cast<ConnectionId>(event.data.u64), event.events);
      }
    }
    // Only now: a later event of the batch may still be for a connection that was closed before.
    free_.insert(free_.end(), closed_.begin(), closed_.end());
    if (!closed_.empty() && !accepting_) resume_accepting();
    closed_.clear();
  }
}

void StoreLoop::accept_clients() {
  for (std::size_t i = 0; i < kAcceptsMax; ++i) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      add_client(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      return pause_accepting(errno);
    if (would_block(errno)) return;
    // Anything else is about the one connection that was taken off the queue, such as ECONNABORTED.
  }
}

void StoreLoop::add_client(UniqueFd fd) {
  const int on = 1;  // a reply of one byte must not wait for another
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ConnectionId id = static_cast<ConnectionId>(connections_.size());
  if (free_.empty()) {
    connections_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  if (!control(EPOLL_CTL_ADD, fd.get(), EPOLLIN, id)) {
    free_.push_back(id);
    return;
  }
  connections_[id] = {std::move(fd), false, EPOLLIN, RequestStream(settings_.accept_old_dialect),
                      nullptr};
}

/// No descriptor is left: clients stay in the kernel's queue, and the loop does not spin on them.
void StoreLoop::pause_accepting(int error) {
  if (!accepting_) return;
  accepting_ = false;
  control(EPOLL_CTL_MOD, listener_.get(), 0, kListenerEvent);
  warn(fmt::format(
      "store: cannot accept clients: {}; they wait until a descriptor is free (see `ulimit -n`)",
      std::strerror(error)));
}

void StoreLoop::resume_accepting() {
  if (accepting_) return;
  accepting_ = control(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, kListenerEvent);
}

void StoreLoop::handle(ConnectionId id, std::uint32_t events) {
  Connection& connection = connections_[id];
  if (!connection.fd) return;
  if ((events & EPOLLOUT) != 0) send_backlog(id);
  if (!connection.fd || (events & ~EPOLLOUT) == 0) return;
  if (!connection.paused) {
    read(id);
  } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    close(id);
  }
}

void StoreLoop::read(ConnectionId id) {
  const ssize_t length = recv(connections_[id].fd.get(), read_buffer_.get(), kReadBytes, 0);
  if (length > 0) {
    serve(id, {read_buffer_.get(), static_cast<std::size_t>(length)});
  } else if (length == 0 || !would_block(errno)) {
    close(id);
  }
}

/// Serves the requests that are whole and sends their replies with one send. After replies of more
/// than the limit it is the others' turn, and this client's next one when it has read them.
void StoreLoop::serve(ConnectionId id, std::string_view bytes) {
  Connection& connection = connections_[id];
  proto::c10d::Refusal refusal;
  const auto serve_request = [&](const proto::c10d::Request& request) {
    refusal = core_.apply(id, request, replies(connection), released_);
    if (!released_.empty()) release(id);
    return !refusal && replies(connection).size() <= settings_.reply_backlog_bytes_max;
  };
  const RequestStream::State state = connection.input.take(bytes, settings_.request, serve_request);
  if (state == RequestStream::State::refused) refusal = connection.input.refusal();
  if (!send_replies(connection)) {
    replies_.clear();
    close(id);
  } else if (refusal) {
    refuse(id, refusal);
  } else {
    connection.paused = state == RequestStream::State::stopped;
    watch(id);
  }
}

/// Sends what was gathered for a client; what its socket does not take becomes its backlog.
/// False: it is gone.
bool StoreLoop::send_replies(Connection& connection) {
  ReplyBuffer& out = replies(connection);
  if (out.empty()) return true;
  if (!send_from(out, connection.fd.get())) return false;
  if (out.empty()) {
    connection.backlog.reset();
  } else if (connection.backlog == nullptr) {
    connection.backlog = std::make_unique<ReplyBuffer>(std::exchange(replies_, {}));
  }
  return true;
}

/// The socket of a client that has a backlog or is paused has room.
void StoreLoop::send_backlog(ConnectionId id) {
  Connection& connection = connections_[id];
  if (!send_replies(connection)) return close(id);
  if (connection.backlog == nullptr && connection.paused) return serve(id, {});
  watch(id);
}

/// Tells the clients whose waits are over. The requester's byte goes behind its own replies.
void StoreLoop::release(ConnectionId requester) {
  for (const ConnectionId id : released_) {
    Connection& connection = connections_[id];
    if (!connection.fd) continue;  // closed by an earlier turn of this loop
    if (id == requester || connection.backlog) {
      replies(connection).append_u8(proto::c10d::kStopWaiting);
      continue;
    }
    const std::uint8_t byte = proto::c10d::kStopWaiting;
    if (send(connection.fd.get(), &byte, 1, MSG_NOSIGNAL) == 1) continue;
    if (!would_block(errno)) {
      close(id);
      continue;
    }
    connection.backlog = std::make_unique<ReplyBuffer>();
    connection.backlog->append_u8(byte);
    watch(id);
  }
}

void StoreLoop::watch(ConnectionId id) {
  Connection& connection = connections_[id];
  std::uint32_t wanted = connection.paused ? EPOLLOUT : EPOLLIN;
  if (connection.backlog) wanted |= EPOLLOUT;
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  control(EPOLL_CTL_MOD, connection.fd.get(), wanted, id);
}

void StoreLoop::refuse(ConnectionId id, const proto::c10d::Refusal& refusal) {
  refused_clients_.fetch_add(1, std::memory_order_relaxed);
  const std::string line =
      fmt::format("store: closed client {}: {}", peer_name(connections_[id].fd.get()),
                  proto::c10d::explain(refusal));
  close(id);
  warn(line);
}

void StoreLoop::warn(const std::string& line) {
  if (settings_.on_warning) {
    settings_.on_warning(line);
  } else {
    spdlog::warn(line);
  }
}

void StoreLoop::close(ConnectionId id) {
  Connection& connection = connections_[id];
  // Explicitly, because a worker that is being forked at this moment holds the socket until it
  // execs, and epoll would go on reporting it under a number that is in use again.
  control(EPOLL_CTL_DEL, connection.fd.get(), 0, 0);
  core_.disconnect(id);
  connection = Connection{};
  closed_.push_back(id);
}

}  // namespace ddprun::rdzv
