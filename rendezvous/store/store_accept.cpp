// The accepting half of StoreLoop: which clients are served, which are closed, and what is logged.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/no_descriptor.hpp"
#include "proto/frame.hpp"
#include "rendezvous/store/peer_name.hpp"
#include "rendezvous/store/store_loop.hpp"

namespace ddprun::rdzv {
namespace {

/// How many are accepted in one go, so that a storm of connects delays no client for long.
constexpr std::size_t kAcceptsMax = 256;
/// While the process has no descriptor left.
constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr std::uint64_t kOtherDescriptors = 64;  ///< that a process has beside its clients
constexpr const char* kFull = "the store's limit of clients is reached";

}  // namespace

void StoreLoop::expect_clients() {
  rlimit open_files{};
  if (settings_.clients_expected == 0 || getrlimit(RLIMIT_NOFILE, &open_files) != 0) return;
  const std::uint64_t highest =
      std::min<std::uint64_t>({settings_.clients_expected + kOtherDescriptors,
                               open_files.rlim_cur - 1, std::numeric_limits<int>::max()});
  // A descriptor of that number makes the table large enough; the table stays so when it is closed.
  const UniqueFd reached(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, static_cast<int>(highest)));
}

void StoreLoop::accept_clients() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < kAcceptsMax; ++i) {
    if (is_full()) {
      if (i > 0) return;  // none may be there; epoll tells if one is
      return pause_accepting(Accepting::full, kFull);
    }
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      add_client(std::move(fd), now);
      continue;
    }
    if (no_descriptor(last_system_error())) {
      return pause_accepting(Accepting::no_descriptor, std::strerror(errno));
    }
    if (would_block(errno)) return;
    // Anything else is about the one connection that was taken off the queue, such as ECONNABORTED.
  }
}

bool StoreLoop::is_full() const {
  return open_clients_.load(std::memory_order_relaxed) >= settings_.connections_max;
}

void StoreLoop::adopt(UniqueFd connection) {
  fcntl(connection.get(), F_SETFL, fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  send_at_once(connection.get());
  {
    const std::lock_guard lock(adopted_mutex_);
    adopted_.push_back(std::move(connection));
  }
  wake();
}

/// They cannot wait in the kernel's queue, where those that are too many for our own port wait.
void StoreLoop::serve_adopted() {
  std::uint64_t wakes = 0;
  [[maybe_unused]] const auto count = ::read(wake_.get(), &wakes, sizeof wakes);
  std::vector<UniqueFd> adopted;
  {
    const std::lock_guard lock(adopted_mutex_);
    adopted.swap(adopted_);
  }
  const Clock::time_point now = Clock::now();
  for (UniqueFd& fd : adopted) {
    if (!is_full()) {
      add_client(std::move(fd), now);
    } else if (warnings_.admit(kAcceptWarning, now)) {
      const std::string line =
          fmt::format("store: closed client {}: {}", peer_name(fd.get()), kFull);
      warnings_.remember(kAcceptWarning, line);
      warn(line);
    }
  }
}

void StoreLoop::add_client(UniqueFd fd, Clock::time_point now) {
  ConnectionId id = static_cast<ConnectionId>(connections_.size());
  if (free_.empty()) {
    connections_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Connection& connection = connections_[id];
  if (!control(EPOLL_CTL_ADD, fd.get(), kReadEvents, &connection)) {
    free_.push_back(id);
    return;
  }
  connection.id = id;
  connection.fd = std::move(fd);
  connection.checked = !peer_users_ && !settings_.on_control_client && settings_.serves_store;
  connection.watched = kReadEvents;
  connection.input = RequestStream(settings_.accept_old_dialect);
  if (settings_.handshake_timeout.count() > 0) {
    connection.handshake_deadline = now + settings_.handshake_timeout;
    newcomers_.push_back(connection);
  }
  open_clients_.fetch_add(1, std::memory_order_relaxed);
  pause_said_ = false;
  clients_.fetch_add(1, std::memory_order_relaxed);
}

/// Clients stay in the kernel's queue, and the loop does not spin on them.
void StoreLoop::pause_accepting(Accepting why, const char* reason) {
  if (accepting_ != Accepting::on) return;
  accepting_ = why;
  accept_retry_ = Clock::now() + kAcceptRetry;
  control(EPOLL_CTL_MOD, listener_.get(), 0, &listener_);
  if (std::exchange(pause_said_, true)) return;
  if (!warnings_.admit(kAcceptWarning, Clock::now())) return;
  const std::string line =
      fmt::format("store: cannot accept clients: {}; they wait until {}", reason,
                  why == Accepting::full ? "one leaves" : "a descriptor is free (see `ulimit -n`)");
  warnings_.remember(kAcceptWarning, line);
  warn(line);
}

void StoreLoop::resume_accepting() {
  if (accepting_ == Accepting::on) return;
  if (control(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, &listener_)) {
    accepting_ = Accepting::on;
  }
}

/// Whether a client from which nothing has been read is the rendezvous service's, and has been
/// handed over, or may still turn out to be.
bool StoreLoop::is_control(Connection& connection, bool ended) {
  if (!settings_.on_control_client) return false;
  std::array<char, proto::kControlSignBytes> first;
  const ssize_t count = recv(connection.fd.get(), first.data(), first.size(), MSG_PEEK);
  if (count <= 0) return false;  // the read that follows finds the same
  const auto opening = proto::opening_of({first.data(), static_cast<std::size_t>(count)});
  if (!opening) return !ended;  // further bytes are an edge of their own
  if (*opening == proto::Opening::other) return false;
  clients_.fetch_sub(1, std::memory_order_relaxed);
  settings_.on_control_client(let_go(connection));
  return true;
}

/// Before the first bytes of a client are served: which user has it? False: it was closed.
bool StoreLoop::may_use(Connection& connection) {
  connection.checked = true;
  if (!settings_.serves_store) {
    refuse(connection, {proto::c10d::Refusal::Why::no_store, 0, 0});
    return false;
  }
  if (!peer_users_) return true;
  const PeerUsers::Peer peer = peer_users_->ask(connection.fd.get());
  switch (peer.answer) {
    case PeerUsers::Answer::allowed:
      return true;
    case PeerUsers::Answer::other:
      refuse(connection, {proto::c10d::Refusal::Why::other_user, peer.uid, geteuid()});
      return false;
    case PeerUsers::Answer::gone:
      refuse(connection, {proto::c10d::Refusal::Why::left_unchecked, 0, 0});
      return false;
    case PeerUsers::Answer::unknown:
      break;
  }
  if (!std::exchange(users_unknown_said_, true)) {
    warn(
        fmt::format("store: the kernel does not tell the users of clients ({}): every user of "
                    "this machine can use the store",
                    peer.failure));
  }
  return true;
}

void StoreLoop::greeted(Connection& connection) {
  connection.newcomer = false;
  connection.newcomers.unlink();
  old_dialect_seen_ = old_dialect_seen_ || connection.input.old_dialect();
}

void StoreLoop::close_late_newcomers(Clock::time_point now) {
  while (!newcomers_.empty() && newcomers_.front().handshake_deadline <= now) {
    Connection& connection = newcomers_.front();
    connection.newcomers.unlink();
    const bool silent = connection.input.kept_bytes() == 0;
    if (silent && old_dialect_seen_) continue;  // the second connection of a PyTorch 1.13
    refuse(connection, {proto::c10d::Refusal::Why::handshake_too_late, 0,
                        static_cast<std::uint64_t>(settings_.handshake_timeout.count())});
  }
}

void StoreLoop::refuse(Connection& connection, const proto::c10d::Refusal& refusal) {
  using Why = proto::c10d::Refusal::Why;
  refused_clients_.fetch_add(1, std::memory_order_relaxed);
  if (refusal.why == Why::unknown_code && refusal.limit == proto::c10d::kLastCode) {
    newer_clients_.fetch_add(1, std::memory_order_relaxed);
  }
  const auto kind = static_cast<std::size_t>(refusal.why);
  if (!warnings_.admit(kind, Clock::now())) return close(connection);
  const std::string line = fmt::format(
      "store: closed client {}: {}", peer_name(connection.fd.get()), proto::c10d::explain(refusal));
  close(connection);
  warnings_.remember(kind, line);
  warn(line);
}

void StoreLoop::warn(const std::string& line) {
  if (settings_.on_warning) {
    settings_.on_warning(line);
  } else {
    spdlog::warn(line);
  }
}

}  // namespace ddprun::rdzv
