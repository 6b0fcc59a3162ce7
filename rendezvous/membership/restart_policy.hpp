// Whether a failed round is tried again, and when. Pure: a function of the settings, the history
// and the cause.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
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

/// A round this long counts as healthy, where no minimum uptime is given: its failure starts a new
/// row.
inline constexpr std::chrono::seconds kLived{30};

struct RestartDecision {
  bool restart = false;
  std::chrono::nanoseconds delay{0};  ///< before the next round may form
  std::string reason;  ///< why not; empty when it is, or when no restart was asked for
};

/// What has been counted so far.
struct RestartHistory {
  /// With more there is no snapshot of a job.
  static constexpr std::size_t kRestartsMax = 65'536;

  int restart_count = 0;
  /// Within the window; empty where there is none.
  std::vector<std::chrono::steady_clock::time_point> restarts;
  int short_rounds = 0;  ///< in a row
  int stuck_rounds = 0;  ///< in a row: got no further than those before, the first one included
  std::optional<std::uint64_t> furthest_step;  ///< of all rounds
  int in_a_row = 0;                            ///< restarts since the last round that lived
};

class RestartPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartPolicy(proto::RestartSettings settings, RestartHistory history = {})
      : settings_(std::move(settings)), history_(std::move(history)) {}

  /// Whether any failure at this time could be followed by a restart.
  [[nodiscard]] bool budget_left(Clock::time_point now) const;

  /// Decides about a round that failed because of `culprit`, and counts the restart if there is
  /// one. `furthest_step`: of its workers; none: they did not say.
  RestartDecision decide(const proto::WorkerFailure& culprit,
                         std::optional<std::uint64_t> furthest_step, Clock::time_point now);

  /// So many restarts are used up: of the job's past, which this policy has not seen.
  void resume_at(int restart_count) {
    history_.restart_count = std::max(history_.restart_count, restart_count);
  }

  /// Restarts so far, in the whole job.
  [[nodiscard]] int restart_count() const { return history_.restart_count; }
  [[nodiscard]] const RestartHistory& history() const { return history_; }
  [[nodiscard]] const proto::RestartSettings& settings() const { return settings_; }

 private:
  void count_round(const proto::WorkerFailure& culprit, std::optional<std::uint64_t> furthest_step);
  [[nodiscard]] std::string hopeless(const proto::WorkerFailure& culprit) const;
  [[nodiscard]] std::string crash_loop() const;
  [[nodiscard]] int used(Clock::time_point now) const;
  [[nodiscard]] std::chrono::nanoseconds next_delay() const;

  proto::RestartSettings settings_;
  RestartHistory history_;
};

/// What the policy makes of each kind of cause, for people: the text of --explain-policy.
std::string explain(const proto::RestartSettings& settings);

}  // namespace ddprun::rdzv
