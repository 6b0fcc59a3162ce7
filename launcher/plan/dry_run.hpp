// --dry-run: the resolved plan as text for people, or as JSON for programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// The variables that ddprun sets for rank 0, in the order in which they are shown. Values that are
/// only known once the job runs (the port when it is 0, the socket) are given as they are known.
using RankZeroEnvironment = std::vector<std::pair<std::string, std::string>>;

/// Ends with a newline. No line is wrapped.
std::string dry_run_text(const LaunchPlan& plan, const RankZeroEnvironment& environment);

/// One object, indented by two, ends with a newline. Text that is not UTF-8 is shown with
/// replacement characters.
std::string dry_run_json(const LaunchPlan& plan, const RankZeroEnvironment& environment);

}  // namespace ddprun::launcher
