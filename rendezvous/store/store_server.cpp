#include "rendezvous/store/store_server.hpp"

#include <cerrno>
#include <thread>
#include <utility>

#include "base/no_descriptor.hpp"
#include "base/start_thread.hpp"
#include "rendezvous/store/store_loop.hpp"

namespace ddprun::rdzv {

class StoreServer::Impl {
 public:
  Impl(StoreListener listener, StoreSettings settings)
      : addr_(std::move(listener.addr)),
        port_(listener.port),
        loop_(std::move(listener.fd), std::move(settings)) {}
  ~Impl() {
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::string addr_;
  const std::uint16_t port_;
  StoreLoop loop_;
  std::thread thread_;
};

Result<StoreServer> StoreServer::start(StoreListener listener, StoreSettings settings) {
  auto impl = std::make_unique<Impl>(std::move(listener), std::move(settings));
  if (const ErrorCode failed = impl->loop_.open()) return failed;
  auto thread = start_thread("store", [&loop = impl->loop_] { loop.run(); });
  if (!thread) return thread.error();
  impl->thread_ = std::move(*thread);
  return StoreServer(std::move(impl));
}

std::string StoreServer::why_not_started(const ErrorCode& error) {
  return error.value() == EAGAIN ? why_no_thread(error) : why_no_descriptor(error);
}

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::StoreServer(StoreServer&&) noexcept = default;
StoreServer::~StoreServer() = default;

const std::string& StoreServer::addr() const { return impl_->addr_; }
std::uint16_t StoreServer::port() const { return impl_->port_; }
void StoreServer::adopt(UniqueFd connection) { impl_->loop_.adopt(std::move(connection)); }
StoreCounters StoreServer::counters() const { return impl_->loop_.counters(); }

}  // namespace ddprun::rdzv
