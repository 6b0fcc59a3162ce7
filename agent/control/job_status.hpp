// The job as one node sees it, for ddpctl.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "agent/config.hpp"
#include "agent/events/ledger.hpp"
#include "agent/node/node_machine.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// What a worker has printed last; empty: nothing, or nothing that goes through us. `start`: the
/// round in which it was started.
using LastLine = std::function<std::string(proto::RoundNumber start, int local_rank)>;

/// One JSON object, as docs/ddpctl.md describes it. Reads the workers' progress pages and what the
/// kernel counts for them. `started`: when the job began here. `slow`: by local rank, how many
/// times as long the steps of a slow worker take. `last_line`: empty where the lines
/// are not asked for.
std::string job_status(const AgentConfig& config, const NodeMachine& machine,
                       Clock::time_point started, const LedgerEntries& ledger,
                       const std::map<int, double>& slow, const LastLine& last_line = {});

}  // namespace ddprun::agent
