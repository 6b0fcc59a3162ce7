// The failure of a worker, or the loss of a node, as text, the same in logs, reports and reasons.
#pragma once

#include <string>
#include <string_view>

#include "proto/membership_messages.hpp"

namespace ddprun::proto {

/// "succeeded", "failed", "cancelled".
std::string_view name_of(Finished::Outcome outcome);
/// How it ended, with the time since the round began, or why it could not be started.
std::string describe(const WorkerFailure& failure);
/// What it printed or what the kernel did, where `describe` does not have it: "ValueError: bad lr".
/// Empty: nothing is known. A long one is cut.
std::string cause_of(const WorkerFailure& failure);
/// How it ended, with its rank, and the name of its node where there are several.
std::string describe(const FailedWorker& worker);
/// The suspect that probably hangs: the only one, or the only one with the least step where all
/// have reported one. Null: none hangs (a signal held them), or it is open which.
const Suspect* likely_suspect(const Verdict& verdict);
/// Which workers had ended, because the culprit only waited for them: "rank 1 on node1", or "ranks
/// 1, 2, 3, 4 and 12 more". Empty: none.
std::string name_of_ended(const Verdict& verdict);
/// Which worker probably hangs, because the culprit only waited for it: "rank 1 on node1", or "one
/// of ranks 1, 2, 3, 4 and 12 more". Empty: none.
std::string name_of_suspects(const Verdict& verdict);
/// Why a round failed: the culprit's failure, and which workers probably hang or had ended.
std::string describe(const Verdict& verdict);
/// Its name and ranks: "node1 (ranks 2 to 3)".
std::string name_of(const LostNode& lost);
/// Its name and ranks, that it was lost and how that showed.
std::string describe(const LostNode& lost);
/// How it showed: "its connection ended".
std::string sign_of(const LostNode& lost);

}  // namespace ddprun::proto
