#include "trainer/run/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores) {
  std::vector<std::string> lines;
  const std::int64_t warmup = plan.schedule.warmup_steps;
  if (warmup > 0 && warmup - plan.schedule.warmup_begin >= plan.last_step) {
    lines.push_back(fmt::format(
        "--warmup {}: the run ends after {} step{}, so its learning rate never reaches --lr: use "
        "fewer warm-up steps",
        options.schedule.warmup.share > 0
            ? fmt::format("{:g}%", 100 * options.schedule.warmup.share)
            : fmt::format("{}", warmup),
        plan.last_step, plan.last_step == 1 ? "" : "s"));
  }
  if (cores == kNoCores) return lines;
  const int workers = environment.local_world_size;
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  const int lanes = choose_lanes(options, environment, cores, run.count);
  const int threads = workers * options.device.threads_per_shard * lanes;
  // More workers than cores, with a thread each, is their launcher's choice.
  if (threads > cores && threads > workers) {
    std::string factors;
    if (lanes > 1)
      factors += fmt::format("--{} {} x ",
                             options.device.parallel == Parallel::dp ? "replicas" : "lanes", lanes);
    if (options.device.threads_per_shard > 1)
      factors += fmt::format("--threads-per-shard {} x ", options.device.threads_per_shard);
    lines.push_back(fmt::format(
        "{}{} worker{} on this machine = {} threads, more than its {} core{}, which is slower than "
        "a thread for each core: give fewer of them",
        factors, workers, workers == 1 ? "" : "s", threads, cores, cores == 1 ? "" : "s"));
  }
  return lines;
}

}  // namespace ddprun::trainer
