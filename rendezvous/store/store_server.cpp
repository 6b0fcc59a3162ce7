#include "rendezvous/store/store_server.hpp"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "rendezvous/store/store_loop.hpp"

namespace ddprun::rdzv {
namespace {

/// A thread that gets none of the process's signals: those belong to the thread that handles them.
std::thread start_without_signals(StoreLoop& loop) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([&loop] {
    pthread_setname_np(pthread_self(), "store");
    loop.run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(StoreListener listener, StoreSettings settings)
      : addr_(std::move(listener.addr)),
        port_(listener.port),
        loop_(std::move(listener.fd), std::move(settings)),
        thread_(start_without_signals(loop_)) {}
  ~Impl() {
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

StoreServer::StoreServer(StoreListener listener, StoreSettings settings)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(settings))) {}
StoreServer::~StoreServer() = default;

const std::string& StoreServer::addr() const { return impl_->addr_; }
std::uint16_t StoreServer::port() const { return impl_->port_; }
StoreCounters StoreServer::counters() const { return impl_->loop_.counters(); }

}  // namespace ddprun::rdzv
