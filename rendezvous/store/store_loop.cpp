#include "rendezvous/store/store_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kEventsMax = 256;
constexpr std::size_t kPiecesMax = 64;  ///< of one send
/// To one client before it is the others' turn: a reader that is as fast as we are, with a reply of
/// gigabytes, must not be the only one served.
constexpr std::size_t kSendBytesMax = 4 * 1024 * 1024;
/// Newcomers with deadlines this close are looked at together.
constexpr std::chrono::milliseconds kDeadlineSlack{250};

/// Sends as much as the socket takes, or as is one client's turn. False: the client is gone.
bool send_from(ReplyBuffer& replies, int fd) {
  std::size_t turn = 0;
  while (!replies.empty() && turn < kSendBytesMax) {
    ssize_t sent = 0;
    if (const std::string_view bytes = replies.contiguous(); !bytes.empty()) {  // nearly always
      sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    } else {
      std::array<iovec, kPiecesMax> pieces;
      const std::size_t filled = replies.gather(pieces);
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = filled;
      sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    replies.consume(static_cast<std::size_t>(sent));
    turn += static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

StoreLoop::StoreLoop(UniqueFd listener, StoreSettings settings)
    : settings_(std::move(settings)),
      listener_(std::move(listener)),
      core_(settings_.waited_keys_max, settings_.store_bytes_max),
      read_buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)),
      warnings_(kWarningKinds) {
  if (settings_.check_uid) peer_users_.emplace(settings_.allowed_uids);
}

ErrorCode StoreLoop::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return last_system_error();
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_ || !control(EPOLL_CTL_ADD, wake_.get(), EPOLLIN, &wake_)) return last_system_error();
  if (listener_) {
    send_at_once(listener_.get());  // clients' sockets inherit it
    if (!control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, &listener_)) return last_system_error();
  }
  expect_clients();
  return {};
}

StoreLoop::~StoreLoop() {
  for (const std::string& line : warnings_.reports(Clock::time_point::max())) warn(line);
  if (!settings_.reset_on_close) return;
  for (const Connection& connection : connections_) {
    if (connection.fd) reset_on_close(connection.fd.get());
  }
  for (const UniqueFd& connection : adopted_) reset_on_close(connection.get());
}

StoreCounters StoreLoop::counters() const {
  const auto value = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  return {value(clients_), value(open_clients_), value(refused_clients_), value(newer_clients_)};
}

void StoreLoop::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  wake();
}

void StoreLoop::wake() {
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its maximum.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

/// Edge-triggered as long as a client is simply read: epoll then looks at its socket once for each
/// request and not a second time to see that nothing is left.
std::uint32_t StoreLoop::events_of(const Connection& connection) {
  if (connection.paused) return EPOLLOUT;
  if (connection.backlog) return EPOLLIN | EPOLLOUT;
  return kReadEvents;
}

bool StoreLoop::control(int operation, int fd, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void StoreLoop::run() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    const int limit_ms = wait_limit_ms();
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsMax, limit_ms);
    DDPRUN_ASSERT(count >= 0 || errno == EINTR, "the store's own descriptors are open");
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      // What is done for one client takes as long as fetching the next one's data from memory.
      if (i + 1 < count) __builtin_prefetch(events[static_cast<std::size_t>(i) + 1].data.ptr);
      if (event.data.ptr == &listener_) {
        accept_clients();
      } else if (event.data.ptr == &wake_) {
        if (stopping_.load(std::memory_order_relaxed)) return;
        serve_adopted();
      } else {
        handle(*static_cast<Connection*>(event.data.ptr), event.events);
      }
    }
    // Only now: a later event of the batch may still be for a connection that was closed before.
    if (limit_ms >= 0) do_what_is_due();
    free_.insert(free_.end(), closed_.begin(), closed_.end());
    if (!closed_.empty()) resume_accepting();
    closed_.clear();
  }
}

/// An idle store waits for ever: nothing wakes it but its clients.
int StoreLoop::wait_limit_ms() const {
  if (newcomers_.empty() && accepting_ != Accepting::no_descriptor && !warnings_.holding()) {
    return -1;
  }
  const Clock::time_point now = Clock::now();
  Clock::time_point due = Clock::time_point::max();
  if (!newcomers_.empty()) due = newcomers_.front().handshake_deadline + kDeadlineSlack;
  if (accepting_ == Accepting::no_descriptor) due = std::min(due, accept_retry_);
  if (const auto report = warnings_.due()) due = std::min(due, *report);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
}

void StoreLoop::do_what_is_due() {
  const Clock::time_point now = Clock::now();
  close_late_newcomers(now);
  for (const std::string& line : warnings_.reports(now)) warn(line);
  if (accepting_ == Accepting::no_descriptor && accept_retry_ <= now) resume_accepting();
}

void StoreLoop::handle(Connection& connection, std::uint32_t events) {
  if (!connection.fd) return;
  if ((events & EPOLLOUT) != 0) send_backlog(connection);
  if (!connection.fd || (events & ~EPOLLOUT) == 0) return;
  if (!connection.paused) {
    read(connection, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    close(connection);
  }
}

void StoreLoop::read(Connection& connection, bool ended) {
  if (!connection.checked && is_control(connection, ended)) return;
  const ssize_t length = recv(connection.fd.get(), read_buffer_.get(), kReadBytes, 0);
  if (length == 0 || (length < 0 && !would_block(errno))) return close(connection);
  if (length < 0) return;
  serve(connection, {read_buffer_.get(), static_cast<std::size_t>(length)});
  // An edge is reported once. What may be left in the socket has to be reported again.
  const bool all_read = static_cast<std::size_t>(length) < kReadBytes && !ended;
  if (!all_read && connection.fd && connection.watched == kReadEvents) {
    control(EPOLL_CTL_MOD, connection.fd.get(), kReadEvents, &connection);
  }
}

/// Serves the requests that are whole and sends their replies with one send. After replies of more
/// than the limit it is the others' turn, and this client's next one when it has read them.
void StoreLoop::serve(Connection& connection, std::string_view bytes) {
  if (!connection.checked && !may_use(connection)) return;
  proto::c10d::Refusal refusal;
  const auto serve_request = [&](const proto::c10d::Request& request) {
    refusal = core_.apply(connection.id, request, replies(connection), released_);
    if (!released_.empty()) release(connection.id);
    return !refusal && replies(connection).size() <= settings_.reply_backlog_bytes_max;
  };
  kept_bytes_ -= connection.input.kept_bytes();
  const RequestStream::State state = connection.input.take(bytes, settings_.request, serve_request);
  kept_bytes_ += connection.input.kept_bytes();
  if (state == RequestStream::State::refused) refusal = connection.input.refusal();
  if (!refusal) refusal = refuse_incomplete(connection);
  if (connection.newcomer && connection.input.greeted()) greeted(connection);
  if (!send_replies(connection)) {
    replies_.clear();
    close(connection);
  } else if (refusal) {
    refuse(connection, refusal);
  } else {
    connection.paused = state == RequestStream::State::stopped;
    watch(connection);
  }
}

/// A request takes memory before it is whole, too.
proto::c10d::Refusal StoreLoop::refuse_incomplete(const Connection& connection) const {
  const std::uint64_t own = connection.input.kept_bytes();
  const std::uint64_t share = settings_.store_bytes_max / StoreCore::kShare;
  if (own == 0) return {};
  if (own > share) return {proto::c10d::Refusal::Why::share_full, own, share};
  const std::uint64_t all = core_.bytes() + kept_bytes_;
  if (all <= settings_.store_bytes_max) return {};
  return {proto::c10d::Refusal::Why::store_full, all, settings_.store_bytes_max};
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
void StoreLoop::send_backlog(Connection& connection) {
  if (!send_replies(connection)) return close(connection);
  if (connection.backlog == nullptr && connection.paused) return serve(connection, {});
  watch(connection);
}

/// Tells the clients that need not wait longer. The requester's byte goes behind its own replies.
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
      close(connection);
      continue;
    }
    connection.backlog = std::make_unique<ReplyBuffer>();
    connection.backlog->append_u8(byte);
    watch(connection);
  }
}

void StoreLoop::watch(Connection& connection) {
  const std::uint32_t wanted = events_of(connection);
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  control(EPOLL_CTL_MOD, connection.fd.get(), wanted, &connection);
}

void StoreLoop::close(Connection& connection) { const UniqueFd closed = let_go(connection); }

UniqueFd StoreLoop::let_go(Connection& connection) {
  // Explicitly, because a worker that is being forked at this moment holds the socket until it
  // execs, and epoll would go on reporting it under a number that is in use again.
  control(EPOLL_CTL_DEL, connection.fd.get(), 0, 0);
  core_.disconnect(connection.id);
  kept_bytes_ -= connection.input.kept_bytes();
  connection.newcomers.unlink();
  closed_.push_back(connection.id);
  UniqueFd fd = std::move(connection.fd);
  connection = Connection{};
  open_clients_.fetch_sub(1, std::memory_order_relaxed);
  return fd;
}

}  // namespace ddprun::rdzv
