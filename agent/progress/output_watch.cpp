#include "agent/progress/output_watch.hpp"

#include "base/assert.hpp"

namespace ddprun::agent {

std::vector<QuietWorker> OutputWatch::look(const std::vector<std::optional<std::uint64_t>>& printed,
                                           std::chrono::nanoseconds elapsed,
                                           const std::vector<bool>& held) {
  DDPRUN_ASSERT(printed.size() == workers_.size(), "one count for each worker");
  std::vector<QuietWorker> quiet;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    worker.seen = printed[i].has_value();
    if (!printed[i]) continue;
    if (*printed[i] != worker.printed) {
      worker = {*printed[i], std::chrono::nanoseconds(0), false, true};
      continue;
    }
    if (!held.empty() && held[i]) continue;
    worker.quiet_for += elapsed;
    if (worker.reported || worker.quiet_for < timeout_) continue;
    worker.reported = true;
    quiet.push_back({static_cast<int>(i), worker.quiet_for});
  }
  return quiet;
}

std::optional<QuietWorker> OutputWatch::all_quiet() const {
  const auto more_suspect = [](const Watched& a, const Watched& b) {
    const bool printed = a.printed > 0;
    return printed != (b.printed > 0) ? printed : a.quiet_for > b.quiet_for;
  };
  const Watched* most = nullptr;
  for (const Watched& worker : workers_) {
    if (!worker.seen) continue;
    if (worker.quiet_for < timeout_) return std::nullopt;
    if (most == nullptr || more_suspect(worker, *most)) most = &worker;
  }
  if (most == nullptr) return std::nullopt;
  return QuietWorker{static_cast<int>(most - workers_.data()), most->quiet_for};
}

void OutputWatch::forget() {
  for (Watched& worker : workers_) worker.quiet_for = std::chrono::nanoseconds(0);
}

}  // namespace ddprun::agent
