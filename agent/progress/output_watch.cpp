#include "agent/progress/output_watch.hpp"

#include "proto/assert.hpp"

namespace ddprun::agent {

std::vector<QuietWorker> OutputWatch::look(const std::vector<std::optional<std::uint64_t>>& printed,
                                           std::chrono::nanoseconds elapsed) {
  DDPRUN_ASSERT(printed.size() == workers_.size(), "one count for each worker");
  std::vector<QuietWorker> quiet;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    if (!printed[i]) continue;
    if (*printed[i] != worker.printed) {
      worker = {*printed[i], std::chrono::nanoseconds(0), false};
      continue;
    }
    worker.quiet_for += elapsed;
    if (worker.said || worker.quiet_for < timeout_) continue;
    worker.said = true;
    quiet.push_back({static_cast<int>(i), worker.quiet_for});
  }
  return quiet;
}

}  // namespace ddprun::agent
