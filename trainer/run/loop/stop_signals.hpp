// SIGTERM, SIGINT and SIGHUP: the request that a run ends. In training it ends after a step, with
// its state saved; before that, and on a second signal, it ends at once.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

enum class StopAnswer {
  end_now,  ///< end the process
  ask,      ///< ask the training loop to end
  ignore,   ///< it is the same request as the signal before
};

/// What is known when a signal comes.
struct StopSituation {
  using Time = std::chrono::steady_clock::time_point;

  bool is_training = false;
  std::uint64_t reason = 0;                     ///< ddprun_stop of worker/ddprun_progress.h
  std::optional<Time> asked_at = std::nullopt;  ///< when the training loop was asked
  bool has_ddprun_asked = false;                ///< an earlier signal came from there
  Time now;
};

/// One request can reach a process twice: Ctrl-C from the terminal and from a launcher. A signal
/// that comes this much later is a second request.
inline constexpr std::chrono::milliseconds kSameRequestWithin{200};

/// Pure.
StopAnswer answer_to_signal(const StopSituation& situation);

/// Waits for the signals on a thread of its own.
class StopSignals {
 public:
  /// From here on this thread, and those that it starts, leave the signals to the object. A signal
  /// that was ignored at the start of the process (nohup) stays ignored. Where no thread can be
  /// started the signals end the process at once, as before.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From here on the first signal only asks. For a loop that looks at asked().
  void begin_training();
  /// The signal that asks the training loop to end; 0: none has come.
  [[nodiscard]] const std::atomic<int>& asked() const { return asked_; }

  /// `clean_up` is called before the process ends at once before training, by the object's thread,
  /// which holds the lock of hold_ends() meanwhile. It may not take long. Empty: nothing is called.
  void set_clean_up(std::function<void()> clean_up);
  /// While the lock is held, the process does not end at once. For moments.
  [[nodiscard]] std::unique_lock<std::mutex> hold_ends() { return std::unique_lock(mutex_); }

 private:
  void wait_for_signals();
  void handle_signal(int signal);
  [[noreturn]] void end_now(int signal);

  sigset_t waited_{};
  sigset_t before_{};  // the mask of the thread that made the object
  UniqueFd signals_;   // a signalfd
  UniqueFd end_;       // an eventfd: the object is being destroyed
  std::atomic<int> asked_{0};
  std::optional<StopSituation::Time> asked_at_;  // of the thread alone
  bool has_ddprun_asked_ = false;                // so is this
  std::mutex mutex_;                             // guards what follows, and what clean_up_ uses
  bool is_training_ = false;
  std::function<void()> clean_up_;
  std::thread thread_;
};

}  // namespace ddprun::trainer
