// What the job socket answers: the job as this node sees it.
#pragma once

#include <string>

#include "agent/control/node_machine.hpp"

namespace ddprun::agent {

/// One JSON object.
std::string job_status(const std::string& run_id, const NodeMachine& machine);

}  // namespace ddprun::agent
