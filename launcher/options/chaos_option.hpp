// The grammar of --chaos=SEED,FAULT=EVERY,... Pure.
#pragma once

#include <string_view>

#include "agent/chaos/chaos_plan.hpp"
#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// `7,kill=30s,delay=10s/500ms,faults=20`. Times are durations (base/duration.hpp) of at least a
/// millisecond. Errors name the part that is wrong.
LaunchResult<agent::ChaosPlan> parse_chaos(std::string_view text);

}  // namespace ddprun::launcher
