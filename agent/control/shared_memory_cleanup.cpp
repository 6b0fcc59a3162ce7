#include "agent/control/shared_memory_cleanup.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace ddprun::agent {
namespace {

constexpr std::size_t kEndedMax = 100'000;  // remembered of a round

}  // namespace

void SharedMemoryCleanup::note_end(pid_t pid) {
  if (round_ && round_->pids.size() < kEndedMax) round_->pids.insert(pid);
}

void SharedMemoryCleanup::end_round(const std::vector<WorkerRecord>& workers) {
  if (!round_) return;
  const bool in_order = std::all_of(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.exit && worker.exit->success();
  });
  machine::EndedProcesses ended{std::exchange(round_->pids, {}), round_->since};
  if (in_order && ended.pids.size() <= workers.size()) return;
  removals_.emplace_back(std::move(ended), folder_);
}

bool SharedMemoryCleanup::remove_next() {
  if (removals_.empty()) return true;
  if (removals_.front().remove_next()) return false;
  if (const int removed = removals_.front().removed(); removed > 0)
    spdlog::info("removed {} files of shared memory that ended processes had left in {}", removed,
                 folder_);
  removals_.pop_front();
  return removals_.empty();
}

}  // namespace ddprun::agent
