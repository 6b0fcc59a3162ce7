// How an attempt or a connection of ServiceConnection ends: it fails, a stranger has the port, it
// is reset, or it is cut on purpose.
#include <string>
#include <utility>

#include "base/socket.hpp"
#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

void ServiceConnection::fail(bool refused, const std::string& reason) {
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  later([this, refused, told = chooser_.why_failed(reason)] { events_.failed(refused, told); });
}

/// What listens there does not talk as a rendezvous does.
void ServiceConnection::fail_with_stranger(const std::string& reason) {
  if (is_cut_) return fail(false, reason);
  const std::uint16_t port = attempt_->port;
  switch (chooser_.meet_stranger(port)) {
    case ServiceChooser::Next::fails:
      return fail(false, reason + "; another program may have port " + std::to_string(port));
    case ServiceChooser::Next::next_host:
      return next_host(reason);
    case ServiceChooser::Next::counts:
      break;
  }
  const std::string user = place_.own != nullptr ? place_.own->port_user() : "";
  if (!user.empty()) return fail(false, reason + "; " + user + " has the port");
  if (!place_.socket.empty()) return fail(false, reason);
  if (is_store_)
    return fail(false,
                reason + (*is_store_ ? "; PyTorch's store has the port, of a torchrun for example: "
                                       "start ddprun in its place, or choose another port"
                                     : "; another program may have the port"));
  // On another machine its program cannot be looked up, but it may be a store.
  const sockaddr_storage addr = attempt_->addr;
  const socklen_t length = attempt_->addr_length;
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  probe_.emplace(context_, [this, reason](bool is_store) {
    is_store_ = is_store;
    fail_with_stranger(reason);
  });
  probe_->ask(addr, length);
}

void ServiceConnection::reset() {
  hello_timer_.cancel();
  host_timer_.cancel();
  channel_.reset();
  probe_.reset();
  unsent_.clear();
  connects_at_heal_ = false;
  if (!attempt_) return;
  if (attempt_->socket.is_open()) {
    reset_on_close(attempt_->socket.native_handle());
    if (is_cut_) cut_sockets_.push_back(std::move(attempt_->socket));
  }
  attempt_.reset();
}

/// An attempt that has no channel yet goes on, but says and hears nothing once it has one.
void ServiceConnection::cut() {
  is_cut_ = true;
  if (!channel_) return;
  ErrorCode ignored;
  attempt_->socket.cancel(ignored);
  attempt_->writing = false;
}

void ServiceConnection::heal() {
  if (!is_cut_) return;
  is_cut_ = false;
  cut_sockets_.clear();
  if (connects_at_heal_) return connect();
  if (!channel_) return;
  flush();
  await_bytes();
}

}  // namespace ddprun::rdzv
