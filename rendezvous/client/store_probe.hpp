// Whether the server at an address speaks the protocol of PyTorch's store: a torchrun has the port
// at which a rendezvous was looked for.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.hpp"

namespace ddprun::rdzv {

/// Asks once. Destroying it asks no further, and nothing is called any more.
class StoreProbe {
 public:
  /// `answered` is called once, from the context; it may destroy the probe.
  StoreProbe(boost::asio::io_context& context, std::function<void(bool is_store)> answered);
  void ask(const sockaddr_storage& addr, socklen_t length);

 private:
  void send();
  void read();
  void finish(bool is_store);

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::function<void(bool)> answered_;
  std::string answer_;
  const std::shared_ptr<bool> is_ = std::make_shared<bool>(true);  // ends with this
};

}  // namespace ddprun::rdzv
