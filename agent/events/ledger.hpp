// What the time of the job went into, as this node saw it: each moment is booked once, so the parts
// sum to the whole. Pure: the caller has the clock and reads the workers' pages.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent {

enum class Spent {
  training,  ///< of a program that reports no steps: all that its workers did
  saving,    ///< in a phase that the program calls so
  waiting,   ///< for nodes, for the delay of a restart, for checks
  starting,  ///< workers: until they report a step, or where they report none, until they run
  again,     ///< steps that an earlier round had begun already
  hung,      ///< since the last sign of life of a worker that hung
  stopping,  ///< a round, or the job
  paused,    ///< by Ctrl-Z
};
inline constexpr std::size_t kSpentKinds = 8;
std::string_view name_of(Spent kind);

using SpentTimes = std::array<std::chrono::nanoseconds, kSpentKinds>;

struct LedgerEntries {
  SpentTimes spent{};             ///< in their order above
  SpentTimes lost{};              ///< the part of it that failures have cost
  std::uint64_t steps_again = 0;  ///< that were done again
  bool has_steps = false;         ///< workers have reported some
};

class Ledger {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class Stage {
    waiting,
    starting,
    running,
    paused,
    stopping,   ///< because a round was given up
    done,       ///< here; for other nodes
    finishing,  ///< the job
  };

  /// What the workers say of the round that runs.
  struct RoundClock {
    std::uint64_t first_step = 0;
    std::uint64_t step = 0;  ///< the newest one
    TimePoint first_at;      ///< when they have reported the first one
    std::optional<TimePoint> reached_at =
        std::nullopt;  ///< the step that earlier rounds had reached; none: not yet
    std::chrono::nanoseconds saving{0};
    std::optional<TimePoint> hung_since = std::nullopt;  ///< none: none hangs
  };

  explicit Ledger(TimePoint began) : since_(began) {}

  [[nodiscard]] Stage stage() const { return stage_; }
  /// Workers of a round run, or have run and the round has not been closed: what they say counts.
  [[nodiscard]] bool has_run() const { return stage_ == Stage::running || !runs_.empty(); }
  /// The workers of the round that runs are asked only when that ends. None: no worker reports.
  /// Their times count as far as they lie within the round.
  void enter(Stage stage, TimePoint now, const std::optional<RoundClock>& workers = {});
  /// Up to now.
  [[nodiscard]] LedgerEntries entries(TimePoint now,
                                      const std::optional<RoundClock>& workers) const;
  /// The highest step of the rounds before.
  [[nodiscard]] std::uint64_t reached_step() const { return reached_step_; }

 private:
  void leave_stage(TimePoint now);
  void end_round(const std::optional<RoundClock>& workers);
  void book(Spent kind, std::chrono::nanoseconds time);
  void book_without_loss(Spent kind, std::chrono::nanoseconds time);

  Stage stage_ = Stage::waiting;
  TimePoint since_;
  std::vector<std::pair<TimePoint, TimePoint>> runs_;  // of this round, between pauses
  int rounds_ = 0;                                     // that have ended
  std::uint64_t reached_step_ = 0;
  LedgerEntries entries_;
};

}  // namespace ddprun::agent
