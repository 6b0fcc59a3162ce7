// The job as one node sees it, for ddpctl.
#pragma once

#include <chrono>
#include <string>

#include "agent/config.hpp"
#include "agent/node/node_machine.hpp"

namespace ddprun::agent {

/// One JSON object, as docs/ddpctl.md describes it. Reads the workers' progress pages and what the
/// kernel counts for them. `started`: when the job began here.
std::string job_status(const AgentConfig& config, const NodeMachine& machine,
                       Clock::time_point started);

}  // namespace ddprun::agent
