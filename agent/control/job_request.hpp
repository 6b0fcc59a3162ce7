// What ddpctl asks the agent of a running job: docs/ddpctl.md, "The protocol". Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <boost/system/result.hpp>

namespace ddprun::agent {

/// The job as this node sees it.
struct StatusWanted {
  bool last_lines = false;  ///< with the last line of each worker
};
struct EventsWanted {
  std::uint64_t from = 0;  ///< the number of the first one
  bool follow = false;     ///< also those that come, until the job ends
};
/// What the workers of this node have printed last.
struct LogsWanted {
  std::optional<int> rank;  ///< only of this one
  bool follow = false;      ///< also what they print from now on, until the job ends
};
/// Tell when the job has ended, and with which exit code.
struct EndWanted {};
/// The stacks of one worker's threads.
struct StacksWanted {
  int rank = 0;
};
/// Have the workers of this node write a checkpoint and go on. Answered when they have.
struct SaveWanted {
  std::chrono::seconds limit{0};
};
/// Start all workers of the job anew.
struct RestartWanted {};
/// End the job.
struct StopWanted {
  bool now = false;  ///< without a grace period
};
/// Send a signal to all workers of this node.
struct SignalWanted {
  int signal = 0;
  std::optional<int> rank;  ///< only to this one
};

/// The longest time for a save.
inline constexpr std::chrono::hours kSaveLimitMax{1};

using JobRequest = std::variant<StatusWanted, EventsWanted, LogsWanted, EndWanted, StacksWanted,
                                SaveWanted, RestartWanted, StopWanted, SignalWanted>;

/// A frame's body, which any process of the user may have sent. Errors: what is wrong with it.
boost::system::result<JobRequest, std::string> parse_job_request(std::string_view body);

/// The answer to a request that is not met.
std::string error_json(std::string_view problem);

}  // namespace ddprun::agent
