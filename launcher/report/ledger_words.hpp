// What the restarts of a job have cost, in words.
#pragma once

#include <string>

#include "agent/agent.hpp"

namespace ddprun::launcher {

/// A line about a job that succeeded; empty: it had no restarts.
std::string success_line(const agent::AgentResult& result);

}  // namespace ddprun::launcher
