// Host names to addresses for an event loop: the answer comes from within it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "rendezvous/client/resolve.hpp"

namespace ddprun::rdzv {

/// One look-up at a time: a name server that hangs must not be asked by ever more threads. Used,
/// and destroyed, on the thread that runs the context.
class Resolver {
 public:
  using Done = std::function<void(Result<Addresses>)>;

  explicit Resolver(boost::asio::io_context& context);
  /// No answer comes any more.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  [[nodiscard]] bool is_busy() const;
  /// `done` is called once, from the context, however long that takes. Not while one is busy.
  /// Errors: the system's, where no thread can be started; `done` is not called then.
  [[nodiscard]] ErrorCode look_up(const std::string& host, std::uint16_t port, Done done);

 private:
  struct Mailbox;
  const std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace ddprun::rdzv
