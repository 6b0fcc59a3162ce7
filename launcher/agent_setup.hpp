// The launch plan as the agent is told it. Pure.
#pragma once

#include "agent/config.hpp"
#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// The policy that the options ask for.
rdzv::RestartSettings restart_settings(const LaunchOptions& options);

/// The agent's configuration, but for the run directory, which is made last.
agent::AgentConfig agent_config(const LaunchPlan& plan, const std::string& node_name);

}  // namespace ddprun::launcher
