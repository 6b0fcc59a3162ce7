// The report as JSON: docs/report.md names the keys. Pure.
#pragma once

#include <string>

#include "launcher/report/report.hpp"

namespace ddprun::launcher {

/// Ended by a newline. Bytes of workers that are no UTF-8 are replaced.
std::string report_json(const agent::AgentResult& result, int exit_code, const JobFacts& facts);

}  // namespace ddprun::launcher
