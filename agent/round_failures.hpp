// Who failed in a round on this node, with all that was seen of it.
#pragma once

#include <chrono>
#include <vector>

#include "agent/config.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/worker_group.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// What is known of a round whose workers have all ended. Everything is borrowed.
struct EndedRound {
  const AgentConfig& config;
  const proto::Round& round;
  const std::vector<WorkerRecord>& workers;
  Clock::time_point started_at;
  std::chrono::system_clock::time_point wall_started_at;
  int stop_signal = 0;         ///< with which they were stopped
  bool memory_kill = false;    ///< the kernel killed for memory since the round began
  const WorkerOutput* output;  ///< null: nothing of it went through us
};

/// Workers that did not fail, or that ended because they were told to, are not in it. Reads error
/// files and the ends of log files.
std::vector<proto::WorkerFailure> failures_of(const EndedRound& ended);

}  // namespace ddprun::agent
