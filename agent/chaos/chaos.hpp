// The faults of --chaos as a pure schedule: (state, event, now) -> a fault. Every node of a job
// draws the same faults from the same seed, and brings about those of its own ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "agent/chaos/chaos_plan.hpp"

namespace ddprun::agent {

/// A fault that is due.
struct ChaosStrike {
  int number = 0;  ///< from 1
  ChaosFault fault = ChaosFault::kill;
  int rank = 0;  ///< RANK in the round that runs: of the worker, or of one of the node's
  std::chrono::nanoseconds length{0};
};

/// For the report.
struct ChaosSummary {
  std::uint64_t seed = 0;
  std::map<ChaosFault, int> faults;  ///< how many of each kind; none: not in it
  /// From each fault that ended its round until all workers of the next one were started, sorted.
  /// Of very many the first ones.
  std::vector<std::chrono::nanoseconds> recoveries;
};

class Chaos {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Chaos(ChaosPlan plan);

  /// The workers of this round run. Repeated: nothing new happens. Time counts only while a round
  /// runs, no fault has ended it and no node is cut off, so that the same seed gives the same
  /// faults in the same order however long the restarts take.
  void round_runs(std::uint64_t round, TimePoint now);
  /// They do not run any more, or are about to end.
  /// A partition has ended the round if that comes before its end, or as long again after it.
  void round_ends(TimePoint now);
  /// When the next fault is due; none: none is.
  [[nodiscard]] std::optional<TimePoint> deadline() const;
  /// Once that has passed. None: it was too soon.
  std::optional<ChaosStrike> strike(int world_size, TimePoint now);
  /// The rendezvous has lost its memory, before its next round runs. Where that is the next fault,
  /// another node has brought it about, whose time is ahead of ours.
  void service_restarted(int world_size);
  /// The last fault found no worker, so its round goes on.
  void missed(TimePoint now);
  [[nodiscard]] ChaosSummary summary() const;

 private:
  struct Row {
    ChaosRow row;
    std::mt19937_64 random;
    std::chrono::nanoseconds next;  // by our own time
  };
  /// A fault that ends its round. One with `outlived_at` may do so, and has not if the round still
  /// runs then.
  struct Blow {
    TimePoint at;
    std::optional<TimePoint> outlived_at;
  };
  [[nodiscard]] std::size_t next_row() const;
  ChaosStrike take_next(int world_size);
  [[nodiscard]] bool over() const;

  const ChaosPlan plan_;
  std::vector<Row> rows_;
  std::mt19937_64 ranks_;
  std::chrono::nanoseconds ran_{0};  // our own time, until since_
  std::optional<TimePoint> since_;   // it counts; none: it stands still
  TimePoint partition_ends_at_{};    // it does not count before
  std::optional<std::uint64_t> round_;
  TimePoint round_ended_at_{};
  std::optional<Blow> blow_;  // to the round
  int strikes_ = 0;
  ChaosSummary summary_;
};

}  // namespace ddprun::agent
