// How long the warden waits for its agent, and when it kills the workers in its place because a
// lease has ended. Pure; the warden does what is due.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::warden {

class AgentDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// A stop that is continued within it is not reported.
  static constexpr std::chrono::seconds kSayStoppedAfter{1};
  /// A process that wakes so much later than planned did not run either (a suspended machine, a
  /// scheduler that stops whole jobs), and cannot blame the agent.
  static constexpr std::chrono::seconds kOversleptAfter{1};

  enum class Due {
    nothing,
    say_stopped,  ///< the agent has been stopped, and the job ends unless it is continued
    end_job,
  };

  /// `limit`: what an agent may take to end the job when told to, and how long it may be stopped.
  explicit AgentDeadline(Clock::duration limit) : limit_(limit) {}

  /// A signal that ends the job was passed on. Later ones change nothing.
  void stop_requested(Clock::time_point now);
  /// The agent has said so: it lives, and knows better than what was known before.
  void ends_within(Clock::duration limit, Clock::time_point now);
  /// The agent was stopped (SIGSTOP), or continued.
  void stopped(Clock::time_point now);
  void continued();

  /// When to ask `due` next; none: there is nothing to wait for.
  [[nodiscard]] std::optional<Clock::time_point> next() const;
  Due due(Clock::time_point now);

  /// How long a stopped agent has left to be continued.
  [[nodiscard]] Clock::duration left(Clock::time_point now) const;
  /// Whether the job is to end in any case.
  [[nodiscard]] bool ending() const { return end_.has_value(); }

 private:
  std::optional<Clock::time_point> end_;             // of the job
  std::optional<Clock::time_point> end_if_stopped_;  // unless the agent is continued before
  std::optional<Clock::time_point> say_;
  Clock::duration limit_;
};

class FenceDeadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// For the agent to kill the workers itself.
  static constexpr std::chrono::seconds kMargin{1};
  /// A machine that was asleep at the end of the lease wakes warden and agent in the same moment:
  /// then the agent has this long.
  static constexpr std::chrono::milliseconds kWakeMargin{200};

  struct Now {
    TimePoint boot;    ///< of base/boot_clock.hpp; runs on while the machine sleeps
    TimePoint steady;  ///< of std::chrono::steady_clock
  };

  /// By the boot clock, when to ask is_due next; none: there is no lease.
  [[nodiscard]] static std::optional<TimePoint> at(std::optional<TimePoint> lease_end);

  bool is_due(std::optional<TimePoint> lease_end, Now now);

  /// By the steady clock, when to ask in place of at(); none: the machine did not sleep.
  [[nodiscard]] std::optional<TimePoint> wake_until() const { return wake_until_; }

 private:
  std::optional<TimePoint> wake_until_;
};

}  // namespace ddprun::warden
