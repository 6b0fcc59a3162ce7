// The accepting half of StoreLoop: which clients are served, which are closed, and what is logged.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/no_descriptor.hpp"
#include "base/socket.hpp"
#include "proto/frame.hpp"
#include "rendezvous/store/peer_name.hpp"
#include "rendezvous/store/store_loop.hpp"

namespace ddprun::rdzv {
namespace {

/// How many are accepted in one go, so that a storm of connects delays no client for long.
constexpr std::size_t kAcceptsMax = 256;
/// While the process has no descriptor left.
constexpr std::chrono::milliseconds kAcceptRetry{100};
/// A kind of warnings behind the reasons to refuse a client.
constexpr std::size_t kAcceptWarning = proto::c10d::Refusal::kReasons;
constexpr const char* kFull = "the store's limit of clients is reached";

}  // namespace

void StoreLoop::accept_clients() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < kAcceptsMax; ++i) {
    if (is_full()) {
      if (i > 0) return;  // none may be there; epoll tells if one is
      return pause_accepting(Full{}, kFull);
    }
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      add_client(std::move(fd), now);
      continue;
    }
    if (no_descriptor(last_system_error())) {
      return pause_accepting(NoDescriptor{now + kAcceptRetry}, std::strerror(errno));
    }
    if (would_block(errno)) return;
    // Anything else is about the one connection that was taken off the queue, such as ECONNABORTED.
  }
}

bool StoreLoop::is_full() const {
  return LiveStoreCounters::value(counters_.open_clients) >= settings_.connections_max;
}

void StoreLoop::adopt(UniqueFd connection) {
  fcntl(connection.get(), F_SETFL, fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  send_at_once(connection.get());
  inbox_.adopt(std::move(connection));
}

/// They cannot wait in the kernel's queue, where those that are too many for our own port wait.
void StoreLoop::serve_adopted() {
  const Clock::time_point now = Clock::now();
  for (UniqueFd& fd : inbox_.take_adopted()) {
    if (!is_full()) {
      add_client(std::move(fd), now);
    } else {
      warnings_.warn(kAcceptWarning, now, [&] {
        return fmt::format("store: closed client {}: {}", peer_name(fd.get()), kFull);
      });
    }
  }
}

void StoreLoop::add_client(UniqueFd fd, Clock::time_point now) {
  ClientSlot& client = clients_.add();
  if (!control(EPOLL_CTL_ADD, fd.get(), ClientSlot::kReadEvents, &client))
    return clients_.give_back(client);
  client.fd = std::move(fd);
  client.checked = !peer_users_ && !settings_.on_control_client && settings_.serves_store;
  client.watched = ClientSlot::kReadEvents;
  client.input = RequestStream(settings_.accept_old_dialect);
  if (settings_.handshake_timeout.count() > 0) {
    client.handshake_deadline = now + settings_.handshake_timeout;
    clients_.expect_request(client);
  }
  LiveStoreCounters::add(counters_.open_clients);
  LiveStoreCounters::add(counters_.clients);
  pause_said_ = false;
}

/// Clients stay in the kernel's queue, and the loop does not spin on them.
void StoreLoop::pause_accepting(Gate why, const char* reason) {
  if (!std::holds_alternative<Accepting>(gate_)) return;
  gate_ = why;
  control(EPOLL_CTL_MOD, listener_.get(), 0, &listener_);
  if (std::exchange(pause_said_, true)) return;
  warnings_.warn(kAcceptWarning, Clock::now(), [&] {
    return fmt::format("store: cannot accept clients: {}; they wait until {}", reason,
                       std::holds_alternative<Full>(why)
                           ? "one leaves"
                           : "a descriptor is free (see `ulimit -n`)");
  });
}

void StoreLoop::resume_accepting() {
  if (std::holds_alternative<Accepting>(gate_)) return;
  if (control(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, &listener_)) gate_ = Accepting{};
}

/// Whether a client from which nothing has been read is the rendezvous service's, and has been
/// handed over, or may still turn out to be.
bool StoreLoop::is_control(ClientSlot& client, bool ended) {
  if (!settings_.on_control_client) return false;
  std::array<char, proto::kControlSignBytes> first;
  const ssize_t count = recv(client.fd.get(), first.data(), first.size(), MSG_PEEK);
  if (count <= 0) return false;  // the read that follows finds the same
  const auto opening = proto::opening_of({first.data(), static_cast<std::size_t>(count)});
  if (!opening) return !ended;  // further bytes are an edge of their own
  if (*opening == proto::Opening::other) return false;
  LiveStoreCounters::subtract(counters_.clients);
  settings_.on_control_client(let_go(client));
  return true;
}

/// Before the first bytes of a client are served: which user has it? False: it was closed.
bool StoreLoop::may_use(ClientSlot& client) {
  client.checked = true;
  if (!settings_.serves_store) {
    refuse(client, {proto::c10d::Refusal::Why::no_store, 0, 0});
    return false;
  }
  if (!peer_users_) return true;
  const PeerUsers::Peer peer = peer_users_->ask(client.fd.get());
  switch (peer.answer) {
    case PeerUsers::Answer::allowed:
      return true;
    case PeerUsers::Answer::other:
      refuse(client, {proto::c10d::Refusal::Why::other_user, peer.uid, geteuid()});
      return false;
    case PeerUsers::Answer::gone:
      refuse(client, {proto::c10d::Refusal::Why::left_unchecked, 0, 0});
      return false;
    case PeerUsers::Answer::unknown:
      break;
  }
  if (!std::exchange(users_unknown_said_, true)) {
    warnings_.write(
        fmt::format("store: the kernel does not tell the users of clients ({}): every user of "
                    "this machine can use the store",
                    peer.failure));
  }
  return true;
}

void StoreLoop::close_late_newcomers(Clock::time_point now) {
  while (ClientSlot* const first = clients_.first_newcomer()) {
    if (first->handshake_deadline > now) return;
    ClientSlot& client = *first;
    client.newcomers.unlink();
    const bool silent = client.input.kept_bytes() == 0;
    if (silent && old_dialect_seen_) continue;  // the second connection of a PyTorch 1.13
    refuse(client, {proto::c10d::Refusal::Why::handshake_too_late, 0,
                    static_cast<std::uint64_t>(settings_.handshake_timeout.count())});
  }
}

void StoreLoop::refuse(ClientSlot& client, const proto::c10d::Refusal& refusal) {
  using Why = proto::c10d::Refusal::Why;
  LiveStoreCounters::add(counters_.refused_clients);
  if (refusal.why == Why::unknown_code && refusal.limit == proto::c10d::kLastCode)
    LiveStoreCounters::add(counters_.newer_clients);
  // Closed at the end: its name comes from the socket.
  const UniqueFd closed = let_go(client);
  warnings_.warn(static_cast<std::size_t>(refusal.why), Clock::now(), [&] {
    return fmt::format("store: closed client {}: {}", peer_name(closed.get()),
                       proto::c10d::explain(refusal));
  });
}

void StoreWarnings::write(const std::string& line) const {
  if (write_) {
    write_(line);
  } else {
    spdlog::warn(line);
  }
}

}  // namespace ddprun::rdzv
