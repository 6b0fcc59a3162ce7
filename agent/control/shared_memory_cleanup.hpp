// Removes the shared memory that killed processes of a round have left, after the round: it takes
// seconds where there is much, so one call removes one file.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/workers/worker_group.hpp"
#include "machine/processes/shared_memory.hpp"

namespace ddprun::agent {

class SharedMemoryCleanup {
 public:
  explicit SharedMemoryCleanup(std::string folder = machine::kSharedMemoryFolder)
      : folder_(std::move(folder)) {}

  void begin_round(std::chrono::system_clock::time_point now) { round_ = {{}, now}; }
  /// A process of the round, or of what is left of it, has ended.
  void note_end(pid_t pid);
  /// No process of the round is left. Where all have ended by themselves in order, nothing is to be
  /// removed.
  void end_round(const std::vector<WorkerRecord>& workers);
  /// True: that was all.
  bool remove_next();

 private:
  const std::string folder_;
  std::optional<machine::EndedProcesses> round_;  // none before the first one
  std::deque<machine::SharedMemoryRemoval> removals_;
};

}  // namespace ddprun::agent
