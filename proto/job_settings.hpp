// What the user chose for a whole job: the same on each of its nodes.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace ddprun::proto {

/// Whether and when a failed round is tried again.
struct RestartSettings {
  int max_restarts = 0;                  ///< in the window, or in the whole job without one
  std::chrono::nanoseconds window{0};    ///< 0: the whole job
  std::chrono::nanoseconds back_off{0};  ///< before the second restart in a row; doubles; 0: none
  std::chrono::nanoseconds back_off_max = std::chrono::seconds(60);
  /// A round that failed sooner made no progress. 0: rounds are never too short.
  std::chrono::nanoseconds minimum_uptime{0};
  /// So many rounds in a row that made no progress end the job: they were too short, or their
  /// workers said how far they were and it was no further than before.
  int crash_loop_rounds = 3;
  std::vector<int> no_restart_codes;  ///< exit codes that end the job, beside those that always do

  friend bool operator==(const RestartSettings&, const RestartSettings&) = default;
};

struct JobSettings {
  int min_nodes = 1;
  int max_nodes = 1;
  RestartSettings restart;  ///< after failures of workers, for the whole job
  /// How many rounds may end because a node was lost or left; none: any number.
  std::optional<int> max_node_changes;
  std::chrono::nanoseconds last_call = std::chrono::seconds(30);  ///< once min_nodes have joined
  /// A round that has not formed by then ends the job.
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(600);
  /// Nodes that come so soon after another join the job at once with it; none: no node joins while
  /// a round is out.
  std::optional<std::chrono::nanoseconds> grow_delay = std::chrono::seconds(5);
  /// A node that failed round after round gives its place to a spare. False where an older agent
  /// began the job: what its service has written decides so again when it is read.
  bool failing_nodes_step_back = false;

  friend bool operator==(const JobSettings&, const JobSettings&) = default;
};

}  // namespace ddprun::proto
