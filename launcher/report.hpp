// What is said at the end of a job that did not succeed, and the exit code it ends with. Pure.
#pragma once

#include <string>

#include "agent/agent.hpp"
#include "launcher/options.hpp"

namespace ddprun::launcher {

/// The exit code of the job, from docs/exit-codes.md.
int exit_code(const agent::AgentResult& result, ExitCodeRule rule = ExitCodeRule::first);

/// Some lines for stderr, each ended by a newline; empty for a success, about which nothing needs
/// to be said. `code` is the exit code.
std::string report(const agent::AgentResult& result, int code);

}  // namespace ddprun::launcher
