// Parts of the report: workers of which one may be the cause although it did not fail, stacks,
// checks that a node failed, and the faults of --chaos. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/chaos/chaos.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::launcher {

/// "rank 1 (node1, local rank 0, pid 4242)"; a pid of 0 is left out, and so is an empty node.
std::string worker_text(int rank, const std::string& node, int local_rank, int pid);

/// The report's first line where all that failed only waited, and one of them until its time-out:
/// the culprit is then rather a worker that still ran. Empty: it is the worker that failed first.
std::string suspects_headline(const proto::Verdict& verdict);

/// Those of which one may hang, with the stacks of the one that is furthest behind, else of the
/// first; or those that a signal held while another one reported an error of its own.
std::string suspects_text(const proto::Verdict& verdict);

/// The head of a worker's stacks, because those of all threads fill screens. Of a Python process
/// under gdb only the first thread is shown: the others are mostly those of libraries. `owner` is
/// empty for the culprit. Empty: there are no stacks.
std::string stacks_text(std::string_view owner, const std::vector<std::string>& stacks);

/// `ddprun: node3 failed its check (--preflight): exited with code 1 (2 times)`, a line each but
/// for one that `next_line` repeats.
std::string unsound_text(const std::vector<proto::UnsoundNode>& unsound,
                         std::string_view next_line);

/// How long recoveries took; there is at least one.
struct RecoveryTimes {
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds p90{0};
  std::chrono::nanoseconds longest{0};
};
RecoveryTimes recovery_times(const agent::ChaosSummary& chaos);

/// `ddprun: chaos (seed 7): 12 faults (10 kill, 2 stop); 12 recoveries: 2 ms (median), ...`, with
/// its line end.
std::string chaos_text(const agent::ChaosSummary& chaos);

}  // namespace ddprun::launcher
