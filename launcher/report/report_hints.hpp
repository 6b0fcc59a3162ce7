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

/// A line about what the kernel counted for it, where that helps: was memory full, does it spin or
/// wait? Of a GPU's memory the kernel knows nothing. Empty: it does not help.
std::string usage_text(const proto::WorkerFailure& culprit);

/// A line about a worker that writes to the terminal itself and has said there what went wrong;
/// empty: the report knows more, or there is nothing to see.
std::string output_above_text(const agent::AgentResult& result,
                              const proto::WorkerFailure& culprit);

/// Sentences for the report, one line each; empty: there is nothing to add to what the failure says
/// itself. What they say of the program is that of the culprit's node.
std::vector<std::string> hints(const agent::AgentResult& result, const proto::Verdict& verdict);

}  // namespace ddprun::launcher
