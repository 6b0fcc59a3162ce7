// Notices a call that does not return. A thread that is blocked in a driver or a library cannot be
// ended by another one, so what follows is the end of the process. And a GPU each call of which has
// such a limit.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// How long a call has been under way. Pure.
class CallClock {
 public:
  using Clock = std::chrono::steady_clock;
  explicit CallClock(std::chrono::nanoseconds limit);

  /// Between two looks: a call is noticed late by a sixteenth of its limit at most.
  [[nodiscard]] std::chrono::nanoseconds every() const { return every_; }
  /// A look at `now`. `serial`: another one after each change. `is_called`: a call is under way.
  /// Whether it has taken its limit. Of a process that was stopped, or a machine that slept, the
  /// time does not count.
  [[nodiscard]] bool is_late(Clock::time_point now, std::uint64_t serial, bool is_called);
  /// As of the last look.
  [[nodiscard]] std::chrono::nanoseconds waited() const { return waited_; }

 private:
  std::chrono::nanoseconds limit_;
  std::chrono::nanoseconds every_;
  std::chrono::nanoseconds waited_{};
  std::uint64_t seen_ = 0;
  std::optional<Clock::time_point> looked_;
};

/// Watches the calls of one thread.
class CallWatch {
 public:
  /// Called by the watching thread, once; it ends the process. `call`: what has happened(), and the
  /// name of the call.
  using LateFunction =
      std::function<void(const std::string& call, std::chrono::duration<double> waited)>;

  /// Watches from now on. Throws std::runtime_error where no thread can be started.
  CallWatch(std::chrono::nanoseconds limit, LateFunction late);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// One call, from here to the end of the scope. Within it another one may begin, which is then
  /// the one that is timed and named; the outer one's time begins anew behind it.
  class Scope {
   public:
    /// `watch` may be null: nothing is watched. `call` outlives the watch.
    Scope(CallWatch* watch, const char* call) : watch_(watch) {
      if (watch_ != nullptr) outer_ = watch_->replace(call);
    }
    ~Scope() {
      if (watch_ != nullptr) watch_->replace(outer_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallWatch* watch_;
    const char* outer_ = nullptr;
  };

  /// What has led to the calls that follow, for the line about one that is late.
  void happened(const std::string& what);

  /// The call under way, which waits and looks around meanwhile, goes on: its time begins anew.
  void progress() { ++serial_; }

 private:
  const char* replace(const char* call) {
    ++serial_;
    return call_.exchange(call);
  }
  void watch();

  CallClock clock_;
  const LateFunction late_;
  std::atomic<const char*> call_{nullptr};  // the innermost; null: none
  std::atomic<std::uint64_t> serial_{0};    // another one after each change
  std::mutex mutex_;
  std::string happened_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

/// Calls of `gpu` under `calls`, which outlives it. A call that waits, and looks meanwhile (see
/// Gpu::set_watch), has its limit from look to look: how long the wait itself may take is decided
/// by the watch.
std::unique_ptr<Gpu> make_guarded_gpu(std::unique_ptr<Gpu> gpu, CallWatch& calls);

}  // namespace ddprun::trainer::cuda
