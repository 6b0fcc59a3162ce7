// Who failed a round, out of all who failed in it. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

/// The culprit and its victims. `failed` has at least one entry.
///
/// First come those without a victim's phrase; among them those with evidence that only a culprit
/// shows (not started, killed for memory, a fatal signal, a hang); then whose first sign is the
/// earliest; what may come of our stopping a worker comes last. Of equals the one with the lower
/// rank. A victim's phrase never acquits the only one.
proto::Verdict judge(std::vector<proto::FailedWorker> failed);

/// What the verdict rests on, as JSON and people read it: `memory_kill`, `exception_line`, ...
std::string_view to_string(proto::EvidenceKind kind);

}  // namespace ddprun::rdzv
