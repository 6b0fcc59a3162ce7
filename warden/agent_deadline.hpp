// How long the warden waits for its agent. Pure; the warden does what is due.
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

}  // namespace ddprun::warden
