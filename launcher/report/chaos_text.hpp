// What --chaos has broken, and how long the job took to recover.
#pragma once

#include <chrono>
#include <string>

#include "agent/chaos/chaos.hpp"

namespace ddprun::launcher {

/// How long recoveries took; there is at least one.
struct RecoveryTimes {
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds p90{0};
  std::chrono::nanoseconds longest{0};
};
RecoveryTimes recovery_times(const agent::ChaosSummary& chaos);

/// `ddprun: chaos (seed 7): 12 faults (10 kill, 2 stop); 12 recoveries: 2 ms (median), ...`, with
/// its line end.
std::string chaos_text(const agent::ChaosSummary& chaos);

}  // namespace ddprun::launcher
