#include "trainer/run/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::trainer {

std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores) {
  std::vector<std::string> lines;
  if (options.warmup > 0 && options.warmup >= plan.last_step) {
    lines.push_back(fmt::format(
        "--warmup {}: the run ends after {} step{}, so its learning rate never reaches --lr: use "
        "fewer warm-up steps",
        options.warmup, plan.last_step, plan.last_step == 1 ? "" : "s"));
  }
  const int workers = environment.local_world_size;
  const int threads = workers * options.threads_per_shard;
  if (options.threads_per_shard > 1 && threads > cores) {
    lines.push_back(fmt::format(
        "--threads-per-shard {}: {} worker{} on this machine ha{} {} threads for {} core{}, which "
        "is "
        "slower than {} for each shard",
        options.threads_per_shard, workers, workers == 1 ? "" : "s", workers == 1 ? "s" : "ve",
        threads, cores, cores == 1 ? "" : "s", std::max(1, cores / workers)));
  }
  return lines;
}

}  // namespace ddprun::trainer
