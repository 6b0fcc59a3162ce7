// What usually lies behind a failure that does not explain itself, and what to try next. Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.hpp"
#include "launcher/report/report.hpp"

namespace ddprun::launcher {

/// Whether a worker's own words, or its last lines, have one of these texts.
bool mentions(const proto::WorkerFailure& failure, std::initializer_list<std::string_view> texts);

/// Sentences for the report, one line each; empty: there is nothing to add to what the failure says
/// itself.
std::vector<std::string> hints(const agent::AgentResult& result, const proto::Verdict& verdict,
                               const JobFacts& facts);

}  // namespace ddprun::launcher
