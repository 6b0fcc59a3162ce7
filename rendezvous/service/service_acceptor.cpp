#include "rendezvous/service/service_acceptor.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/no_descriptor.hpp"
#include "rendezvous/store/peer_name.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsMax = 256;  // in one go
constexpr std::chrono::milliseconds kAcceptRetry{50};

/// The other end's address without its port.
std::string address_of(int fd) {
  const std::string name = peer_name(fd);
  const auto colon = name.rfind(':');
  std::string host = name.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

ServiceAcceptor::ServiceAcceptor(asio::io_context& context, Settings settings, Events events)
    : events_(std::move(events)), listener_(context), retry_timer_(context) {
  if (settings.check_uid) users_.emplace(std::move(settings.allowed_uids));
}

ErrorCode ServiceAcceptor::listen(UniqueFd listener) {
  ErrorCode failed;
  listener_.assign(listener.get(), failed);
  if (failed) return failed;
  static_cast<void>(listener.release());
  await_clients();
  return {};
}

void ServiceAcceptor::adopt(UniqueFd connection) { take(std::move(connection)); }

/// Those that came first are served first.
void ServiceAcceptor::take(UniqueFd fd) {
  if (!may_use(fd.get())) return;
  std::string addr = address_of(fd.get());
  waiting_.push_back({std::move(fd), std::move(addr)});
  serve_waiting();
}

void ServiceAcceptor::serve_waiting() {
  if (std::exchange(is_serving_, true)) return;  // room was made for the first of them
  while (!waiting_.empty() && events_.make_room(waiting_.front().addr)) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    events_.admitted(std::move(next.fd), std::move(next.addr));
  }
  is_serving_ = false;
  if (!waiting_.empty()) rest();
}

void ServiceAcceptor::await_clients() {
  if (std::exchange(is_awaiting_, true)) return;
  listener_.async_wait(asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    is_awaiting_ = false;
    if (!ec) accept_clients();
  });
}

void ServiceAcceptor::accept_clients() {
  for (int i = 0; i < kAcceptsMax; ++i) {
    if (is_resting_) return;
    UniqueFd fd(accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      take(std::move(fd));
    } else if (no_descriptor(last_system_error())) {
      if (!events_.free_descriptor()) return rest();
    } else if (errno == EAGAIN) {
      break;
    }  // else it was about the one connection that was taken off the queue
  }
  await_clients();
}

/// Clients wait in the kernel's queue meanwhile.
void ServiceAcceptor::rest() {
  if (std::exchange(is_resting_, true)) return;
  retry_timer_.expires_after(kAcceptRetry);
  retry_timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    is_resting_ = false;
    serve_waiting();
    if (!is_resting_ && listener_.is_open()) accept_clients();
  });
}

bool ServiceAcceptor::may_use(int fd) {
  if (!users_) return true;
  const PeerUsers::Peer peer = users_->ask(fd);
  if (peer.answer != PeerUsers::Answer::other) return true;
  events_.refused(
      fmt::format("closed {}: it belongs to user {}, and there is no secret by which it could "
                  "prove itself",
                  peer_name(fd), peer.uid));
  return false;
}

}  // namespace ddprun::rdzv
