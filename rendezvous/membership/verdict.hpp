// Which worker failed a round, out of all that failed in it. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

/// The culprit, those that failed in the same way, and its victims. `failed` has at least one
/// entry.
///
/// First come those without a victim's phrase; among them those with evidence that only a culprit
/// shows (not started, killed for memory, a fatal signal, a hang); then the one with the
/// earliest first sign; what may come of our stopping a worker comes last. Of equals the one with
/// the lower rank. A victim's phrase never acquits the only one.
///
/// A node's workers are compared by their times. Then each node's earliest failure is compared with
/// those of the others. If the uncertainty lets several be first (`at` less `uncertainty` is no
/// later than any other's sum), the stronger kind decides, then the lower rank; `close_call` says
/// so.
///
/// They failed in the same way if they left the same words (numbers in them may differ); where
/// neither left any, the same exit code or signal. Of one that was stopped while it wrote a
/// traceback, so much of it as came. A worker with a victim's phrase is a victim unless the culprit
/// has it, too.
///
/// A worker that a signal held when the round was stopped may be what the others waited for: it
/// counts as a hang. Where one of them reports an error of its own it does not, and the worker is a
/// suspect.
///
/// `ended`: workers that had ended with exit code 0. Where all that failed have a victim's phrase,
/// those that ended before them, or were ending then, are what was waited for, rather than one that
/// still ran.
///
/// `still_ran`: workers that neither failed nor ended. Where all that failed have a victim's phrase
/// and one of them timed out waiting, they are suspects: one of them may be what was waited for.
proto::Verdict judge(std::vector<proto::FailedWorker> failed,
                     std::vector<proto::Suspect> still_ran = {},
                     std::vector<proto::EarlyEnd> ended = {});

/// Whether the second failed in the same way as the first, a culprit.
bool failed_alike(const proto::WorkerFailure& culprit, const proto::WorkerFailure& other);

/// On which node the round failed: the culprit's, or, where that only waited for one that probably
/// hangs or had ended, the node of that one. Empty: several nodes have such workers.
proto::AgentId failed_node(const proto::Verdict& verdict);

/// The exit code of a job that the culprit ends, as docs/exit-codes.md has it.
int exit_code_of(const proto::Verdict& verdict);

/// What stands for a failure until its evidence comes.
proto::WorkerFailure without_evidence(const proto::WorkerFailed& failed);

/// Whether the first is more of a culprit than the second, as far as can be told of workers of
/// which each node has its own clock.
bool is_guiltier(const proto::FailedWorker& first, const proto::FailedWorker& second);

/// The worker with the last one of its lines, and no stacks: enough for a verdict in which it is
/// not the culprit.
proto::FailedWorker with_last_line(proto::FailedWorker worker);

/// Without last lines and stacks: for what is kept or sent of rounds that are over.
proto::FailedWorker without_lines(proto::FailedWorker worker);

/// What the verdict rests on, as JSON and people read it: `memory_kill`, `exception_line`, ...
std::string_view to_string(proto::EvidenceKind kind);

}  // namespace ddprun::rdzv
