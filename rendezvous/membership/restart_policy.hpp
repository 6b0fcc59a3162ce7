// Whether a failed round is tried again, and when. Pure: a function of the settings, the history
// and the cause.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

/// A worker that exits with it is never restarted: for programs that know that it would be no use.
inline constexpr int kExitNeverRestart = 113;

/// The wait before the second restart in a row, and the longest one, where the user gives none: a
/// program that dies at once must not use up its restarts before anybody can look.
inline constexpr std::chrono::seconds kAutoBackOff{1};
inline constexpr std::chrono::seconds kAutoBackOffMax{30};

/// A round that lasted this long lived, where no minimum uptime is given: its failure starts a new
/// row.
inline constexpr std::chrono::seconds kLived{30};

struct RestartDecision {
  bool restart = false;
  std::chrono::nanoseconds delay{0};  ///< before the next round may form
  std::string reason;  ///< why not; empty when it is, or when no restart was asked for
};

class RestartPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartPolicy(proto::RestartSettings settings) : settings_(std::move(settings)) {}

  /// Whether any failure at this time could be followed by a restart.
  [[nodiscard]] bool budget_left(Clock::time_point now) const;

  /// Decides about a round that failed because of `culprit`, and counts the restart if there is
  /// one. `furthest_step`: of its workers; none: they did not say.
  RestartDecision decide(const proto::WorkerFailure& culprit,
                         std::optional<std::uint64_t> furthest_step, Clock::time_point now);

  /// So many restarts are used up: of the job's past, which this policy has not seen.
  void resume_at(int restart_count) { restart_count_ = std::max(restart_count_, restart_count); }

  /// Restarts so far, in the whole job.
  [[nodiscard]] int restart_count() const { return restart_count_; }
  [[nodiscard]] const proto::RestartSettings& settings() const { return settings_; }

 private:
  void count_round(const proto::WorkerFailure& culprit, std::optional<std::uint64_t> furthest_step);
  [[nodiscard]] std::string hopeless(const proto::WorkerFailure& culprit) const;
  [[nodiscard]] std::string crash_loop() const;
  [[nodiscard]] int used(Clock::time_point now) const;
  [[nodiscard]] std::chrono::nanoseconds next_delay() const;

  proto::RestartSettings settings_;
  int restart_count_ = 0;
  std::vector<Clock::time_point> restarts_;  // within the window; empty where there is none
  int short_rounds_ = 0;                     // in a row
  int stuck_rounds_ = 0;  // in a row: got no further than the rounds before, the first one included
  std::optional<std::uint64_t> furthest_step_;  // of all rounds
  int in_a_row_ = 0;                            // restarts since the last round that lived
};

/// What the policy makes of each kind of cause, for people: the text of --explain-policy.
std::string explain(const proto::RestartSettings& settings);

}  // namespace ddprun::rdzv
