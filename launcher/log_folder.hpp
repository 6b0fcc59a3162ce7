// The folder of one run for the workers' log and error files.
#pragma once

#include <string>

#include "launcher/options/launch_error.hpp"
#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// TMPDIR where it is set, else `otherwise`. Absolute: workers may change their folder.
std::string temporary_base(const std::string& otherwise);

/// Makes BASE/RUNID_RANDOM for the plan, private to this user, with BASE where it is not there, and
/// lets BASE/latest lead to it; without a base it is TMPDIR/ddprun_RUNID_RANDOM. Empty when the
/// plan wants no logs. Errors: the folder can't be made; the message names it.
LaunchResult<std::string> make_log_folder(const LaunchPlan& plan);

}  // namespace ddprun::launcher
