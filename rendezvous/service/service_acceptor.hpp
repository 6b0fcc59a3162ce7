// How connections come to the service: from its own listener, or from the store at the same port;
// all of them from users that may use it, and no more at a time than it has room for. Lives on the
// service's thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/store/peer_users.hpp"

namespace ddprun::rdzv {

class ServiceAcceptor {
 public:
  struct Settings {
    /// Close loopback connections of other users than our own, root and `allowed_uids`.
    bool check_uid = true;
    std::vector<uid_t> allowed_uids;
  };
  struct Events {
    /// Whether one more connection may be admitted now.
    std::function<bool()> has_room;
    /// `addr`: the other end's, numeric, without its port.
    std::function<void(UniqueFd, std::string addr)> admitted;
    /// One was closed: a line with the reason.
    std::function<void(const std::string&)> refused;
  };

  ServiceAcceptor(boost::asio::io_context& context, Settings settings, Events events);

  /// Accepts from then on. Errors: the system's, where the descriptor cannot be watched.
  ErrorCode listen(UniqueFd listener);
  /// A connection that was accepted elsewhere; it waits while there is no room.
  void adopt(UniqueFd connection);
  /// To be called whenever there may be room again.
  void serve_adopted();
  /// Adopted connections for which there is no room yet.
  [[nodiscard]] std::size_t waiting() const { return adopted_.size(); }

 private:
  void await_clients();
  void accept_clients();
  void rest();
  void admit(UniqueFd fd);
  bool may_use(int fd);

  const Events events_;
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer retry_timer_;
  std::optional<PeerUsers> users_;
  std::deque<UniqueFd> adopted_;
};

}  // namespace ddprun::rdzv
