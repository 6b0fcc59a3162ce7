// How a job ended, as JSON: docs/report.md has the keys. Pure.
#pragma once

#include <string>

#include "agent/agent.hpp"

namespace ddprun::launcher {

/// The report of --report=FILE, with a newline at its end. Bytes that are no UTF-8 become U+FFFD.
std::string report_json(const agent::AgentResult& result, int exit_code, const std::string& run_id);

}  // namespace ddprun::launcher
