// A connection that is silent on purpose: cut() and heal() of ServiceConnection.
#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

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
