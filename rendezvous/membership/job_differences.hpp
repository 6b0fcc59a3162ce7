// In what a node was started otherwise than its job, for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/job_settings.hpp"

namespace ddprun::rdzv {

/// A line for each option that has another value on this node. The job's value counts everywhere:
/// "this job has --max-restarts=3, not --max-restarts=0".
std::vector<std::string> differences(const proto::JobSettings& job,
                                     const proto::JobSettings& given);

}  // namespace ddprun::rdzv
