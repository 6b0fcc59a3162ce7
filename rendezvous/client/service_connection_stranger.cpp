// What listens where the rendezvous should be is another program: the words of ServiceConnection
// for that, and the question to it where it may be a store.
#include <string>

#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

/// What listens there does not talk as a rendezvous does.
void ServiceConnection::fail_with_stranger(const std::string& reason) {
  if (is_cut_) return fail(false, reason);
  if (may_be_at_other_port()) {
    const std::string port = std::to_string(attempt_->port);
    try_port_last();
    return fail(false, reason + "; another program may have port " + port);
  }
  if (hosts_.has_next()) return next_host(reason);
  const std::string user = place_.own != nullptr ? place_.own->port_user() : "";
  if (!user.empty()) return fail(false, reason + "; " + user + " has the port");
  if (!place_.socket.empty()) return fail(false, reason);
  if (!is_store_) return ask_stranger(reason);
  fail(false, reason + (*is_store_ ? "; PyTorch's store has the port, of a torchrun for example: "
                                     "start ddprun in its place, or choose another port"
                                   : "; another program may have the port"));
}

/// On another machine its program cannot be looked up, but it may be a store.
void ServiceConnection::ask_stranger(const std::string& reason) {
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

}  // namespace ddprun::rdzv
