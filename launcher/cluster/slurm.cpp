// Slurm: the step that srun has started, never the whole job. A step may have fewer nodes than its
// job, and SLURM_JOB_NODELIST names all of them.
#include <fmt/format.h>

#include "base/number_in.hpp"
#include "launcher/cluster/hostlist.hpp"
#include "launcher/cluster/schedulers.hpp"

namespace ddprun::launcher {
namespace {

/// From here on, step ids mean a batch script, a shell of salloc and the like.
constexpr std::uint64_t kSpecialSteps = 0xffff'fff0;
constexpr int kKillWaitSeconds = 30;  // Slurm's default
constexpr std::size_t kShownBytesMax = 80;

constexpr std::string_view kOneTask = "srun --ntasks-per-node=1 ddprun ...";

std::optional<std::string> either(const Environment& environment, std::string_view name,
                                  std::string_view old_name) {
  const auto value = lookup(environment, name);
  return value ? value : lookup(environment, old_name);
}

/// What is known in a script that sbatch has started, or in a shell of salloc.
ClusterNode no_step(const Environment& environment) {
  ClusterNode node;
  const long long nodes = slurm_nodes(environment);
  if (nodes > 1) {
    node.hint = fmt::format(
        "this Slurm job has {} nodes, and ddprun starts workers on this one only; for all of them "
        "type: {}",
        nodes, kOneTask);
  }
  return node;
}

/// A list of a large cluster fills screens.
std::string shown(const std::string& list) {
  return list.size() <= kShownBytesMax ? list : list.substr(0, kShownBytesMax) + "...";
}

struct Step {
  std::string id;
  int nodes = 1;
  int node_rank = 0;
  int tasks = 1;
  std::string hosts;
};

LaunchResult<Step> read_step(const Environment& environment, std::string id) {
  Step step;
  step.id = std::move(id);
  const auto nodes = count_in(environment, "SLURM_STEP_NUM_NODES");
  if (!nodes) return nodes.error();
  const auto rank = count_in(environment, "SLURM_NODEID");
  if (!rank) return rank.error();
  const auto tasks = count_in(environment, "SLURM_STEP_NUM_TASKS");
  if (!tasks) return tasks.error();
  step.nodes = nodes->value_or(1);
  step.node_rank = rank->value_or(0);
  step.tasks = tasks->value_or(step.nodes);
  step.hosts = lookup(environment, "SLURM_STEP_NODELIST").value_or("");
  return step;
}

LaunchError several_tasks(const Step& step) {
  return usage_error(fmt::format(
      "Slurm has started {} tasks on {} (SLURM_STEP_NUM_TASKS), but each ddprun starts "
      "all workers of its node; type: {}, or --standalone for jobs of one node each",
      step.tasks, step.nodes == 1 ? "one node" : fmt::format("{} nodes", step.nodes), kOneTask));
}

LaunchError contradiction(const std::string& what) {
  return usage_error(what +
                     "; are these variables of another job? Give --nnodes, --node-rank and "
                     "--rdzv-endpoint, or --nnodes=1");
}

}  // namespace

long long slurm_nodes(const Environment& environment) {
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
    if (const auto nodes = lookup(environment, name))
      return number_in<long long>(*nodes).value_or(1);
  }
  return 1;
}

LaunchResult<ClusterNode> slurm_node(const Environment& environment) {
  const auto job = either(environment, "SLURM_JOB_ID", "SLURM_JOBID");
  const auto id = either(environment, "SLURM_STEP_ID", "SLURM_STEPID");
  const auto number = id ? number_in<std::uint64_t>(*id) : std::nullopt;
  if (!job || !number || *number >= kSpecialSteps || !lookup(environment, "SLURM_STEP_NUM_NODES"))
    return no_step(environment);
  const auto step = read_step(environment, *id);
  if (!step) return step.error();

  const auto hosts = Hostlist::parse(step->hosts);
  if (!hosts) {
    return usage_error(
        fmt::format("SLURM_STEP_NODELIST={}: {}; give --nnodes, --node-rank and --rdzv-endpoint",
                    shown(step->hosts), hosts.error()));
  }
  const auto own_name = lookup(environment, "SLURMD_NODENAME");
  const bool in_list = static_cast<std::uint64_t>(step->node_rank) < hosts->size();
  const bool is_own = !own_name || (in_list && hosts->name(step->node_rank) == *own_name);
  // A job that was submitted from a shell of another one has that one's step in its variables.
  if (step->nodes == 1 && !is_own) {
    Environment of_the_job = environment;
    of_the_job.erase("SLURM_STEP_NUM_NODES");
    return no_step(of_the_job);
  }
  // Such a shell has as many tasks as cores were asked for.
  const bool is_shell = step->nodes == 1 && lookup(environment, "SLURM_PTY_PORT").has_value();
  if (step->tasks > step->nodes && !is_shell) return several_tasks(*step);
  if (hosts->size() != static_cast<std::uint64_t>(step->nodes)) {
    return contradiction(fmt::format("SLURM_STEP_NUM_NODES={}, but SLURM_STEP_NODELIST={} names {}",
                                     step->nodes, shown(step->hosts), hosts->size()));
  }
  if (!is_own || !in_list) {
    return contradiction(fmt::format("SLURM_NODEID={} of SLURM_STEP_NODELIST={} is not {}",
                                     step->node_rank, shown(step->hosts),
                                     own_name ? "SLURMD_NODENAME=" + *own_name : "in it"));
  }

  ClusterNode node;
  node.scheduler = "Slurm";
  node.nodes = {step->nodes, "SLURM_STEP_NUM_NODES"};
  node.node_rank = {step->node_rank, "SLURM_NODEID"};
  node.first_host = {hosts->name(0), "SLURM_STEP_NODELIST"};
  node.rank0_is_first_host = true;
  const std::string restarts = lookup(environment, "SLURM_RESTART_COUNT").value_or("0");
  node.run_id = {fmt::format("{}.{}.{}", *job, step->id, restarts),
                 "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT"};
  const auto gpus = count_in(environment, "SLURM_GPUS_ON_NODE");
  if (!gpus) return gpus.error();
  if (gpus->value_or(0) > 0) node.workers = {**gpus, "SLURM_GPUS_ON_NODE"};
  node.kill_wait_seconds = kKillWaitSeconds;
  return node;
}

}  // namespace ddprun::launcher
