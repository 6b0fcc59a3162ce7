// Which workers failed in a round on this node, with all that was seen of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "agent/config.hpp"
#include "agent/progress/found_hang.hpp"
#include "agent/progress/progress_page.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/workers/worker_group.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// By local rank; none: it wrote no page.
using ProgressPages = std::vector<std::optional<ProgressPage>>;

/// The pages of a round's workers as they are now.
ProgressPages read_progress_pages(const AgentConfig& config,
                                  const std::vector<WorkerRecord>& workers);

/// None: no worker wrote a page.
std::optional<std::uint64_t> furthest_step(const ProgressPages& pages);

/// What is known of a round after all its workers have ended. Everything is borrowed.
struct EndedRound {
  const AgentConfig& config;
  const proto::Round& round;
  const std::vector<WorkerRecord>& workers;
  Clock::time_point started_at;
  std::chrono::system_clock::time_point wall_started_at;
  std::optional<Clock::time_point> stopped_at;  ///< when that began; none: they ended before
  int stop_signal = 0;                          ///< with which they were stopped
  bool memory_kill = false;    ///< the kernel killed for memory since the round began
  const WorkerOutput* output;  ///< null: nothing of it went through us
  const ProgressPages& pages;
  const FoundHang* hang;  ///< null: none hung
};

/// Workers that did not fail, or that ended because they were told to, are not in it. Reads error
/// files and the ends of log files.
std::vector<proto::WorkerFailure> failures_of(const EndedRound& ended);

/// Removes what a worker that has ended has in the run directory, which mostly lies in memory. An
/// error file in a log folder stays.
void remove_files_of_worker(const AgentConfig& config, const StartRound& start, int local_rank);
/// Does so for all workers of a round that was judged, but those that wait for the next one.
void remove_worker_files(const AgentConfig& config, const std::vector<WorkerRecord>& workers);

}  // namespace ddprun::agent
