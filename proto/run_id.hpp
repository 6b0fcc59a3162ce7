// The run id of a job of several nodes that was started without one, and how people are shown it.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::proto {

/// torchrun's.
inline constexpr std::string_view kDefaultRunId = "none";

/// What follows the word "job" in lines for people. The name alone would read as "there is no job".
inline std::string named_job(const std::string& run_id) {
  return "'" + run_id + "'" + (run_id == kDefaultRunId ? " (started without --rdzv-id)" : "");
}

}  // namespace ddprun::proto
