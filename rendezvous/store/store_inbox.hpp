// What other threads tell a store's loop: to stop, and which clients to adopt.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

class StoreInbox {
 public:
  /// Once, before all below.
  ErrorCode open() {
    wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return wake_ ? ErrorCode() : last_system_error();
  }
  /// Readable when there is something.
  [[nodiscard]] int descriptor() const { return wake_.get(); }

  /// From any thread.
  void stop() {
    is_stopping_.store(true, std::memory_order_relaxed);
    wake();
  }
  /// From any thread.
  void adopt(UniqueFd connection) {
    {
      const std::lock_guard lock(mutex_);
      adopted_.push_back(std::move(connection));
    }
    wake();
  }

  [[nodiscard]] bool is_stopping() const { return is_stopping_.load(std::memory_order_relaxed); }
  /// In the order in which they came.
  std::vector<UniqueFd> take_adopted() {
    eventfd_t wakes = 0;
    eventfd_read(wake_.get(), &wakes);
    const std::lock_guard lock(mutex_);
    return std::exchange(adopted_, {});
  }

 private:
  // Cannot fail: the counter is far from its maximum.
  void wake() const { eventfd_write(wake_.get(), 1); }

  UniqueFd wake_;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  std::vector<UniqueFd> adopted_;  // guarded by the mutex
};

}  // namespace ddprun::rdzv
