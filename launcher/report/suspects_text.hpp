// The workers of which one may be the cause although it did not fail: others waited for it. Pure.
#pragma once

#include <string>

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

}  // namespace ddprun::launcher
