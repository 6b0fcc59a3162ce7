// Which CPUs a worker runs on, and with how many threads.
#include "launcher/plan/plan_parts.hpp"
#include "launcher/program/script_text.hpp"
#include "machine/cpus/placement.hpp"
#include "machine/cpus/usable_cpus.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

void plan_omp_threads(const LaunchOptions& options, const Environment& environment,
                      const Probes& probes, LaunchPlan& plan) {
  const auto workers = static_cast<int>(plan.agent.workers.size());
  switch (options.workers.omp_threads.kind) {
    case OmpThreads::Kind::number:
      for (agent::WorkerSettings& worker : plan.agent.workers)
        worker.omp_threads = options.workers.omp_threads.number;
      return;
    case OmpThreads::Kind::automatic: {
      const int usable = probes.usable_cpus();
      if (!options.workers.numa_binding) {
        for (agent::WorkerSettings& worker : plan.agent.workers)
          worker.omp_threads = machine::omp_threads(usable, workers);
        return;
      }
      std::vector<machine::CpuSet> sets;
      for (const agent::WorkerSettings& worker : plan.agent.workers) sets.push_back(worker.cpus);
      const std::vector<int> threads = machine::omp_threads(usable, sets);
      for (std::size_t i = 0; i < plan.agent.workers.size(); ++i)
        plan.agent.workers[i].omp_threads = threads.at(i);
      return;
    }
    case OmpThreads::Kind::as_torchrun:
      break;
  }
  // torchrun's rule: an existing value, even an empty one, is left alone.
  if (workers == 1 || lookup(environment, proto::env::kOmpNumThreads)) return;
  for (agent::WorkerSettings& worker : plan.agent.workers) worker.omp_threads = 1;
  if (options.log_level >= LogLevel::error || !may_use_openmp(plan.program, *probes.files)) return;
  if (machine::omp_threads(probes.usable_cpus(), workers) == 1) return;  // no CPUs to share
  plan.agent.start_note =
      "OMP_NUM_THREADS=1 for each worker (--omp-threads=auto to share the CPUs)";
}

}  // namespace

LaunchResult<void> plan_cpus(const LaunchOptions& options, const Environment& environment,
                             const Probes& probes, const std::vector<std::string>& gpus,
                             LaunchPlan& plan) {
  if (options.workers.numa_binding) {
    auto sets = machine::place_workers(probes.topology(gpus), *options.workers.numa_binding,
                                       static_cast<int>(plan.agent.workers.size()), gpus);
    if (!sets) return usage_error("--numa-binding: " + sets.error().message);
    for (std::size_t i = 0; i < plan.agent.workers.size(); ++i)
      plan.agent.workers[i].cpus = std::move((*sets)[i]);
  }
  plan_omp_threads(options, environment, probes, plan);
  return {};
}

}  // namespace ddprun::launcher
