#include "rendezvous/store/store_loop.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "base/socket.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kEventsMax = 256;
constexpr std::size_t kPiecesMax = 64;  ///< of one send
/// To one client before it is the others' turn: a reader that is as fast as we are, with a reply of
/// gigabytes, must not be the only one served.
constexpr std::size_t kSendBytesMax = 4 * 1024 * 1024;
constexpr std::uint64_t kOtherDescriptors = 64;  ///< that a process has beside its clients
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

/// In the table of descriptors, before there are that many clients.
void make_room_for(std::uint64_t clients, int some_fd) {
  rlimit open_files{};
  if (clients == 0 || getrlimit(RLIMIT_NOFILE, &open_files) != 0) return;
  const std::uint64_t highest = std::min<std::uint64_t>(
      {clients + kOtherDescriptors, open_files.rlim_cur - 1, std::numeric_limits<int>::max()});
  // A descriptor of that number makes the table large enough; the table stays so when it is closed.
  const UniqueFd reached(fcntl(some_fd, F_DUPFD_CLOEXEC, static_cast<int>(highest)));
}

}  // namespace

StoreLoop::StoreLoop(UniqueFd listener, StoreSettings settings)
    : settings_(std::move(settings)),
      listener_(std::move(listener)),
      core_(settings_.waited_keys_max, settings_.store_bytes_max),
      read_buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)),
      warnings_(settings_.on_warning) {
  if (settings_.check_uid) peer_users_.emplace(settings_.allowed_uids);
}

ErrorCode StoreLoop::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return last_system_error();
  if (const ErrorCode failed = inbox_.open()) return failed;
  if (!control(EPOLL_CTL_ADD, inbox_.descriptor(), EPOLLIN, &inbox_)) return last_system_error();
  if (listener_) {
    send_at_once(listener_.get());  // clients' sockets inherit it
    if (!control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, &listener_)) return last_system_error();
  }
  make_room_for(settings_.clients_expected, epoll_.get());
  return {};
}

StoreLoop::~StoreLoop() {
  warnings_.report(Clock::time_point::max());
  if (!settings_.reset_on_close) return;
  for (const ClientSlot& client : clients_.slots()) {
    if (client.fd) reset_on_close(client.fd.get());
  }
  for (const UniqueFd& connection : inbox_.take_adopted()) reset_on_close(connection.get());
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
      } else if (event.data.ptr == &inbox_) {
        // In this order: to take clients also takes the wake of a stop that comes meanwhile.
        serve_adopted();
        if (inbox_.is_stopping()) return;
      } else {
        handle(*static_cast<ClientSlot*>(event.data.ptr), event.events);
      }
    }
    // Only now: a later event of the batch may still be for a connection that was closed before.
    if (limit_ms >= 0) do_what_is_due();
    if (clients_.reuse_closed()) resume_accepting();
  }
}

/// An idle store waits for ever: nothing wakes it but its clients.
int StoreLoop::wait_limit_ms() const {
  const ClientSlot* const newcomer = clients_.first_newcomer();
  const auto* const no_descriptor = std::get_if<NoDescriptor>(&gate_);
  if (newcomer == nullptr && no_descriptor == nullptr && !warnings_.holding()) return -1;
  const Clock::time_point now = Clock::now();
  Clock::time_point due = Clock::time_point::max();
  if (newcomer != nullptr) due = newcomer->handshake_deadline + kDeadlineSlack;
  if (no_descriptor != nullptr) due = std::min(due, no_descriptor->retry_at);
  if (const auto report = warnings_.due()) due = std::min(due, *report);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
}

void StoreLoop::do_what_is_due() {
  const Clock::time_point now = Clock::now();
  close_late_newcomers(now);
  warnings_.report(now);
  const auto* const no_descriptor = std::get_if<NoDescriptor>(&gate_);
  if (no_descriptor != nullptr && no_descriptor->retry_at <= now) resume_accepting();
}

void StoreLoop::handle(ClientSlot& client, std::uint32_t events) {
  if (!client.fd) return;
  if ((events & EPOLLOUT) != 0) send_backlog(client);
  if (!client.fd || (events & ~EPOLLOUT) == 0) return;
  if (!client.paused) {
    read(client, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    close(client);
  }
}

void StoreLoop::read(ClientSlot& client, bool ended) {
  if (!client.checked && is_control(client, ended)) return;
  const ssize_t length = recv(client.fd.get(), read_buffer_.get(), kReadBytes, 0);
  if (length == 0 || (length < 0 && !would_block(errno))) return close(client);
  if (length < 0) return;
  serve(client, {read_buffer_.get(), static_cast<std::size_t>(length)});
  // An edge is reported once. What may be left in the socket has to be reported again.
  const bool all_read = static_cast<std::size_t>(length) < kReadBytes && !ended;
  if (!all_read && client.fd && client.watched == ClientSlot::kReadEvents) {
    control(EPOLL_CTL_MOD, client.fd.get(), ClientSlot::kReadEvents, &client);
  }
}

/// Serves the requests that are whole and sends their replies with one send. After replies of more
/// than the limit it is the others' turn, and this client's next one when it has read them.
void StoreLoop::serve(ClientSlot& client, std::string_view bytes) {
  if (!client.checked && !may_use(client)) return;
  proto::c10d::Refusal refusal;
  const auto serve_request = [&](const proto::c10d::Request& request) {
    refusal = core_.apply(client.id, request, replies(client), released_);
    if (!released_.empty()) release(client.id);
    return !refusal && replies(client).size() <= settings_.reply_backlog_bytes_max;
  };
  kept_bytes_ -= client.input.kept_bytes();
  const RequestStream::State state = client.input.take(bytes, settings_.request, serve_request);
  kept_bytes_ += client.input.kept_bytes();
  if (state == RequestStream::State::refused) refusal = client.input.refusal();
  if (!refusal) refusal = refuse_incomplete(client);
  if (client.newcomer && client.input.greeted()) {
    client.newcomer = false;
    client.newcomers.unlink();
    old_dialect_seen_ = old_dialect_seen_ || client.input.old_dialect();
  }
  if (!send_replies(client)) {
    replies_.clear();
    close(client);
  } else if (refusal) {
    refuse(client, refusal);
  } else {
    client.paused = state == RequestStream::State::stopped;
    watch(client);
  }
}

/// A request takes memory before it is whole, too.
proto::c10d::Refusal StoreLoop::refuse_incomplete(const ClientSlot& client) const {
  const std::uint64_t own = client.input.kept_bytes();
  const std::uint64_t share = settings_.store_bytes_max / StoreCore::kShare;
  if (own == 0) return {};
  if (own > share) return {proto::c10d::Refusal::Why::share_full, own, share};
  const std::uint64_t all = core_.bytes() + kept_bytes_;
  if (all <= settings_.store_bytes_max) return {};
  return {proto::c10d::Refusal::Why::store_full, all, settings_.store_bytes_max};
}

/// Sends what was gathered for a client; what its socket does not take becomes its backlog.
/// False: it is gone.
bool StoreLoop::send_replies(ClientSlot& client) {
  ReplyBuffer& out = replies(client);
  if (out.empty()) return true;
  if (!send_from(out, client.fd.get())) return false;
  if (out.empty()) {
    client.backlog.reset();
  } else if (client.backlog == nullptr) {
    client.backlog = std::make_unique<ReplyBuffer>(std::exchange(replies_, {}));
  }
  return true;
}

/// The socket of a client that has a backlog or is paused has room.
void StoreLoop::send_backlog(ClientSlot& client) {
  if (!send_replies(client)) return close(client);
  if (client.backlog == nullptr && client.paused) return serve(client, {});
  watch(client);
}

/// Tells the clients that need not wait longer. The requester's byte goes behind its own replies.
void StoreLoop::release(ConnectionId requester) {
  for (const ConnectionId id : released_) {
    ClientSlot& client = clients_[id];
    if (!client.fd) continue;  // closed by an earlier turn of this loop
    if (id == requester || client.backlog) {
      replies(client).append_u8(proto::c10d::kStopWaiting);
      continue;
    }
    const std::uint8_t byte = proto::c10d::kStopWaiting;
    if (send(client.fd.get(), &byte, 1, MSG_NOSIGNAL) == 1) continue;
    if (!would_block(errno)) {
      close(client);
      continue;
    }
    client.backlog = std::make_unique<ReplyBuffer>();
    client.backlog->append_u8(byte);
    watch(client);
  }
}

void StoreLoop::watch(ClientSlot& client) {
  const std::uint32_t wanted = client.wanted_events();
  if (wanted == client.watched) return;
  client.watched = wanted;
  control(EPOLL_CTL_MOD, client.fd.get(), wanted, &client);
}

void StoreLoop::close(ClientSlot& client) { const UniqueFd closed = let_go(client); }

UniqueFd StoreLoop::let_go(ClientSlot& client) {
  // Explicitly, because a worker that is being forked at this moment holds the socket until it
  // execs, and epoll would go on reporting it under a number that is in use again.
  control(EPOLL_CTL_DEL, client.fd.get(), 0, 0);
  core_.disconnect(client.id);
  kept_bytes_ -= client.input.kept_bytes();
  LiveStoreCounters::subtract(counters_.open_clients);
  return clients_.remove(client);
}

}  // namespace ddprun::rdzv
