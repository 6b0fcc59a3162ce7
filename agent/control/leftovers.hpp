// What workers leave behind when they have ended: asked to end, given time, killed. Pure; the agent
// does it.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::agent {

class Leftovers {
 public:
  using Clock = std::chrono::steady_clock;

  /// Processes that a worker has started often end by themselves a moment after it (Python's
  /// resource tracker): those are not reported.
  static constexpr std::chrono::milliseconds kSettle{100};

  /// What to do now.
  enum class Step {
    nothing,    ///< wait for `gone` or the deadline
    terminate,  ///< name them and send SIGTERM
    kill,       ///< SIGKILL; then `killed`, and the round is over
    over,       ///< no process is left: the round is over
  };

  /// The workers have ended. `any`: something of them is left. `patience`: how long it may take to
  /// end after SIGTERM, at most 0: no time at all; none: SIGKILL follows the first moment, because
  /// the round failed.
  Step begin(bool any, std::optional<Clock::duration> patience, Clock::time_point now);
  /// Nothing is left.
  Step gone();
  /// The user is out of patience.
  Step kill_now();
  /// The round is stopped: they have no more than the first moment.
  void end_patience(Clock::time_point now);
  /// SIGKILL has ended them, or is given up.
  void killed();
  /// To be called when `deadline()` has passed.
  Step deadline_passed(Clock::time_point now);

  [[nodiscard]] std::optional<Clock::time_point> deadline() const { return deadline_; }
  [[nodiscard]] Clock::duration patience() const { return patience_.value_or(kSettle); }
  [[nodiscard]] bool begun() const { return phase_ != Phase::before; }
  [[nodiscard]] bool waiting() const {
    return phase_ == Phase::settling || phase_ == Phase::terminated;
  }
  [[nodiscard]] bool killing() const { return phase_ == Phase::killing; }
  [[nodiscard]] bool over() const { return phase_ == Phase::over; }

 private:
  enum class Phase { before, settling, terminated, killing, over };

  Step end(Step step);

  Phase phase_ = Phase::before;
  std::optional<Clock::duration> patience_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace ddprun::agent
