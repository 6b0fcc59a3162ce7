// What the user chose about the workers' streams and logs, and where these go. Plain data.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {

/// Which workers get our standard input; the others get /dev/null.
enum class StdinMode { rank0, all, none };

constexpr bool gets_stdin(StdinMode mode, int local_rank) {
  return mode == StdinMode::all || (mode == StdinMode::rank0 && local_rank == 0);
}

/// When the queue to the console or to the files is full.
enum class LogPolicy {
  automatic,  ///< wait for one that is slow, and drop when it is stuck; a terminal: as `drop`
  drop,       ///< wait a moment, then drop
  block,      ///< wait: the workers wait, too
};

/// How files that pass through us are cut into parts.
struct RotationSettings {
  std::uint64_t bytes_max = 0;  ///< of one part; 0: no cap
  int keep = 1;                 ///< how many older parts stay
};

/// Some ranks; an empty set means all of them.
struct RankSet {
  std::vector<std::pair<int, int>> ranges;  ///< first and last

  [[nodiscard]] bool has(int rank) const {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [rank](const auto& range) {
             return range.first <= rank && rank <= range.second;
           });
  }
};

/// What becomes of lines, once they are read.
struct LogSettings {
  RankSet shown_ranks;                      ///< global; the others' lines are not shown here
  std::vector<std::string> stdout_filters;  ///< lines for filtered_stdout.log
  std::vector<std::string> stderr_filters;
  LogPolicy policy = LogPolicy::automatic;
  std::chrono::milliseconds bar_interval{10'000};  ///< see OutputSettings; 0: a bar's end only
  RotationSettings rotation;                       ///< of files that we write
  std::string folder;                              ///< of this run; empty: no log files
};

}  // namespace ddprun::agent
