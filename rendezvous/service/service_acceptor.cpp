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
constexpr std::chrono::milliseconds kAcceptRetry{100};

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

void ServiceAcceptor::adopt(UniqueFd connection) {
  adopted_.push_back(std::move(connection));
  serve_adopted();
}

void ServiceAcceptor::serve_adopted() {
  while (!adopted_.empty() && events_.has_room()) {
    admit(std::move(adopted_.front()));
    adopted_.pop_front();
  }
}

void ServiceAcceptor::await_clients() {
  listener_.async_wait(asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (!ec) accept_clients();
  });
}

void ServiceAcceptor::accept_clients() {
  for (int i = 0; i < kAcceptsMax; ++i) {
    if (!events_.has_room()) return rest();
    UniqueFd fd(accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (no_descriptor(last_system_error())) return rest();
      if (errno == EAGAIN) break;
      continue;  // about the one connection that was taken off the queue
    }
    admit(std::move(fd));
  }
  await_clients();
}

/// Clients wait in the kernel's queue meanwhile.
void ServiceAcceptor::rest() {
  retry_timer_.expires_after(kAcceptRetry);
  retry_timer_.async_wait([this](ErrorCode ec) {
    if (!ec) accept_clients();
  });
}

void ServiceAcceptor::admit(UniqueFd fd) {
  if (!may_use(fd.get())) return;
  std::string addr = address_of(fd.get());
  events_.admitted(std::move(fd), std::move(addr));
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
