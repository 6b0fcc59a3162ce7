// The times of --rdzv-conf as one set that fits together. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/launch_error.hpp"
#include "launcher/options/rdzv_conf.hpp"

namespace ddprun::launcher {

/// 1 s <= lease <= lost_timeout, so a node whose rendezvous answers never counts as lost or gives
/// up: it asks several times in each lease.
struct RdzvTimes {
  std::optional<std::chrono::nanoseconds> join_timeout;  ///< none: the usual one
  std::optional<std::chrono::nanoseconds> last_call;     ///< none: the usual one
  std::chrono::nanoseconds lease{0};                     ///< how long a node may be silent
  std::chrono::nanoseconds lost_timeout{0};              ///< how long the rendezvous may
  std::vector<std::string> warnings;  ///< values that count otherwise than they were typed
};

/// What does not fit is derived where torchrun accepts it, and where both wishes can be met. An
/// error is a lease or a lost_timeout below a second. `lost_beyond_lease`: how much longer than the
/// lease a lost_timeout is that was not given; none: the usual one.
LaunchResult<RdzvTimes> rdzv_times(const RdzvConf& conf,
                                   std::optional<std::chrono::nanoseconds> lost_beyond_lease = {});

}  // namespace ddprun::launcher
