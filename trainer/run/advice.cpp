#include "trainer/run/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores) {
  std::vector<std::string> lines;
  const std::int64_t warmup = plan.schedule.warmup_steps;
  if (warmup > 0 && warmup >= plan.last_step) {
    lines.push_back(fmt::format(
        "--warmup {}: the run ends after {} step{}, so its learning rate never reaches --lr: use "
        "fewer warm-up steps",
        options.warmup.share > 0 ? fmt::format("{:g}%", 100 * options.warmup.share)
                                 : fmt::format("{}", warmup),
        plan.last_step, plan.last_step == 1 ? "" : "s"));
  }
  if (cores == kNoCores) return lines;
  const int workers = environment.local_world_size;
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  const int lanes = choose_lanes(options, environment, cores, run.count);
  const int threads = workers * options.threads_per_shard * lanes;
  // More workers than cores, with a thread each, is their launcher's choice.
  if (threads > cores && threads > workers) {
    const char* const side_by_side = options.parallel == Parallel::dp ? "--replicas" : "--lanes";
    const std::string given =
        (lanes > 1 ? fmt::format("{} {}", side_by_side, lanes) : "") +
        (lanes > 1 && options.threads_per_shard > 1 ? ", " : "") +
        (options.threads_per_shard > 1
             ? fmt::format("--threads-per-shard {}", options.threads_per_shard)
             : "");
    lines.push_back(fmt::format(
        "{}: {} worker{} on this machine ha{} {} threads for {} core{}, which is slower than {} "
        "for each worker",
        given, workers, workers == 1 ? "" : "s", workers == 1 ? "s" : "ve", threads, cores,
        cores == 1 ? "" : "s", std::max(1, cores / workers)));
  }
  return lines;
}

}  // namespace ddprun::trainer
