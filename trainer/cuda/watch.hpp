// What is called while the host waits for a GPU, and what follows where it finds that the GPU
// hangs.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

namespace ddprun::trainer::cuda {

/// `waited`: how long the host's wait has taken that is under way.
using WatchFunction = std::function<void(std::chrono::steady_clock::duration waited)>;

/// Watches the host's waits for one GPU. Once the watch has thrown, what was waited for never
/// comes: each later look throws the same again, so that an error cannot be lost where nothing may
/// throw.
class Watch {
 public:
  /// Empty: nothing is called, and waits have no end of their own.
  void set(WatchFunction watch) { watch_ = std::move(watch); }
  [[nodiscard]] bool is_set() const { return watch_ != nullptr; }

  /// Throws if the watch does, or did.
  void look(std::chrono::steady_clock::duration waited) {
    check();
    if (!watch_) return;
    try {
      watch_(waited);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  /// Throws if the watch did.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  /// Before memory is freed, for which CUDA waits without any watch. `wait` waits for all streams
  /// and looks meanwhile. False: that has failed, and freeing would never return.
  template <class Wait>
  [[nodiscard]] bool may_free(const Wait& wait) noexcept {
    if (failure_) return false;
    if (!watch_) return true;
    try {
      wait();
    } catch (...) {
      failure_ = std::current_exception();
    }
    return !failure_;
  }

 private:
  WatchFunction watch_;
  std::exception_ptr failure_;
};

}  // namespace ddprun::trainer::cuda
