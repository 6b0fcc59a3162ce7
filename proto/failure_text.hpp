// A worker's failure as text, the same in logs, reports and reasons.
#pragma once

#include <string>

#include "proto/membership_messages.hpp"

namespace ddprun::proto {

/// How it ended, with the time since the round began, or why it could not be started.
std::string describe(const WorkerFailure& failure);
/// The same with its rank, and the name of its node where there are several.
std::string describe(const FailedWorker& worker);

}  // namespace ddprun::proto
