// Which worker holds up the others: by how long its steps take without the time in which it waits
// for others or saves. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// What a worker says of itself at its last update.
struct WorkDone {
  std::uint64_t step = 0;
  std::chrono::nanoseconds at{0};        ///< by its clock
  std::chrono::nanoseconds not_busy{0};  ///< it has waited for others, or saved, since any time
};

/// A worker that is slow, and how long its steps take.
struct SlowRank {
  int local_rank = 0;
  double factor = 1;                        ///< its time for a step, by that of the others
  std::chrono::nanoseconds step_time{0};    ///< without waits
  std::chrono::nanoseconds others_time{0};  ///< the median of the others
};

class SlowRanks {
 public:
  static constexpr std::chrono::seconds kFirstLook{1};  ///< after the first sign of a worker
  static constexpr std::chrono::seconds kLookEvery{5};
  /// The median of so many intervals counts, in each of which all workers have made a step.
  static constexpr std::size_t kIntervals = 4;
  static constexpr double kFactorMin = 1.15;  ///< one that is 1.2 times as slow is surely found

  /// To be called every kLookEvery, with an entry for each worker of the round; none: it says
  /// nothing. Gives those that are slow now, and were so an interval before.
  const std::vector<SlowRank>& look(std::vector<std::optional<WorkDone>> workers);
  /// Another round, or a pause: nothing of before counts.
  void forget() { *this = {}; }

 private:
  /// By local rank; none: it is not known.
  using Interval = std::vector<std::optional<SlowRank>>;
  [[nodiscard]] Interval interval_to(const std::vector<std::optional<WorkDone>>& workers) const;
  /// By the median of all intervals. None: it is not slow.
  [[nodiscard]] std::optional<SlowRank> slow_rank(std::size_t local_rank) const;

  std::vector<std::optional<WorkDone>> last_;
  std::deque<Interval> intervals_;
  std::vector<bool> were_slow_;
  std::vector<SlowRank> found_;
};

}  // namespace ddprun::agent
