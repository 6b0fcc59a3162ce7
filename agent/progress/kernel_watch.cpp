#include "agent/progress/kernel_watch.hpp"

#include "base/assert.hpp"

namespace ddprun::agent {

std::optional<KernelWait> KernelWatch::look(const std::vector<std::optional<std::uint64_t>>& waits,
                                            std::chrono::nanoseconds elapsed) {
  DDPRUN_ASSERT(waits.size() == workers_.size(), "one wait for each worker");
  std::optional<KernelWait> longest;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    const bool goes_on = waits[i] && waits[i] == worker.wait;
    worker = {waits[i], goes_on ? worker.lasted + elapsed : std::chrono::nanoseconds(0)};
    if (!goes_on || worker.lasted < timeout_) continue;
    if (!longest || worker.lasted > longest->lasted)
      longest = KernelWait{static_cast<int>(i), worker.lasted};
  }
  return longest;
}

}  // namespace ddprun::agent
