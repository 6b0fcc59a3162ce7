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
    /// Makes room for one more connection from there, if there is none: whether it may be admitted
    /// now. False: it is asked again soon.
    std::function<bool(const std::string& addr)> make_room;
    /// No descriptor is left: whether one was given back.
    std::function<bool()> free_descriptor;
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
  void serve_waiting();
  /// Connections for which there is no room yet.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  void await_clients();
  void accept_clients();
  void rest();
  void take(UniqueFd fd);
  bool may_use(int fd);

  const Events events_;
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer retry_timer_;
  std::optional<PeerUsers> users_;
  struct Waiting {
    UniqueFd fd;
    std::string addr;
  };
  std::deque<Waiting> waiting_;
  bool is_serving_ = false;
  bool is_awaiting_ = false;
  bool is_resting_ = false;  // clients wait in the kernel's queue
};

}  // namespace ddprun::rdzv
