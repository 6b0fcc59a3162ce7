// What is printed at the end of a job, and the exit code with which it ends. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.hpp"
#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// What the report adds to what the agent knows.
struct JobFacts {
  std::string run_id = {};
  std::vector<std::string> command = {};  ///< the command line of ddprun
  std::string folder = {};                ///< in which it was started; empty: deleted
  std::string log_folder = {};            ///< of this run; empty: none
};

/// The exit code of the job, from docs/exit-codes.md.
int exit_code(const agent::AgentResult& result, ExitCodeRule rule = ExitCodeRule::first);

/// How many workers of this node exited by themselves after the signal that ended a job: with 0 or
/// 128 + the signal. 0 for other jobs.
int exited_by_themselves(const agent::AgentResult& result);

/// Some lines for stderr, each ended by a newline; empty for a success without restarts. `code` is
/// the exit code.
std::string report(const agent::AgentResult& result, int code);

}  // namespace ddprun::launcher
