// The environment of a worker: the agent's own, and the contract that torchrun's workers rely on.
// Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/config.hpp"
#include "agent/workers/worker_group.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

using EnvironmentPairs = std::vector<std::pair<std::string, std::string>>;

/// The variables that ddprun sets for one worker of a round, in a fixed order. What torchrun sets
/// only where it is absent is left out where `inherited` has it. `job_socket` is empty when there
/// is none. `start`: the round in which the worker was started.
EnvironmentPairs worker_environment(const AgentConfig& config, const proto::Round& round,
                                    const StartRound& start, int local_rank,
                                    const std::string& job_socket,
                                    const std::vector<std::string>& inherited);

/// Those of them that are the same in all rounds, and that Python and modules look at once, at
/// their start.
EnvironmentPairs lasting_environment(const AgentConfig& config, int local_rank);

/// `inherited` (NAME=VALUE) with `set` replacing and adding: what execve gets.
std::vector<std::string> merge_environment(const std::vector<std::string>& inherited,
                                           const EnvironmentPairs& set);

/// Where a worker that was started in this round may leave its error.json: in the log folder, else
/// the run directory; empty without both.
std::string error_file(const AgentConfig& config, const StartRound& start, int local_rank);

/// Where a worker that was started in this round may make its progress page; empty without a run
/// directory.
std::string progress_file(const AgentConfig& config, const StartRound& start, int local_rank);

/// Where workers write torch's timers; empty: these are not watched.
std::string timer_file(const AgentConfig& config);

}  // namespace ddprun::agent
