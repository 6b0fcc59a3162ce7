#include "rendezvous/client/resolver.hpp"

#include <mutex>
#include <utility>

#include <boost/asio/post.hpp>

namespace ddprun::rdzv {

/// Between the resolver and its thread, which may outlive it.
struct Resolver::Mailbox {
  std::mutex mutex;
  boost::asio::io_context* context = nullptr;  // null: nothing waits any more
  Done done;                                   // of the context's thread; empty: none is busy
};

Resolver::Resolver(boost::asio::io_context& context) : mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->context = &context;
}

Resolver::~Resolver() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->context = nullptr;
  mailbox_->done = nullptr;
}

bool Resolver::is_busy() const { return static_cast<bool>(mailbox_->done); }

ErrorCode Resolver::look_up(const std::string& host, std::uint16_t port, Done done) {
  mailbox_->done = std::move(done);
  const ErrorCode failed = resolve_then(host, port, [mailbox = mailbox_](Result<Addresses> found) {
    const std::lock_guard lock(mailbox->mutex);
    if (mailbox->context == nullptr) return;
    boost::asio::post(*mailbox->context,
                      [mailbox, found = std::make_shared<Result<Addresses>>(std::move(found))] {
                        if (const Done said = std::exchange(mailbox->done, nullptr))
                          said(std::move(*found));
                      });
  });
  if (failed) mailbox_->done = nullptr;
  return failed;
}

}  // namespace ddprun::rdzv
