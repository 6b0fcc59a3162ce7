// What usually lies behind a failure that does not explain itself, and what to try next. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.hpp"
#include "launcher/report/report.hpp"

namespace ddprun::launcher {

/// Sentences for the report, one line each; empty: there is nothing to add to what the failure says
/// itself.
std::vector<std::string> hints(const agent::AgentResult& result, const proto::Verdict& verdict,
                               const JobFacts& facts);

}  // namespace ddprun::launcher
