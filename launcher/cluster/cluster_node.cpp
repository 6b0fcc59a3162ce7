#include "launcher/cluster/cluster_node.hpp"

#include <fmt/format.h>

#include "base/number_in.hpp"
#include "launcher/cluster/schedulers.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

/// A worker of ddprun or torchrun inherits all variables of its scheduler, and is not what that one
/// has started.
bool is_in_a_worker(const Environment& environment) {
  return lookup(environment, proto::env::kJobSocket).has_value() ||
         lookup(environment, proto::env::kRunId).has_value();
}

}  // namespace

LaunchResult<std::optional<int>> count_in(const Environment& environment,
                                          std::string_view variable) {
  const auto text = lookup(environment, variable);
  if (!text) return std::optional<int>();
  const auto number = number_in<int>(*text);
  if (number && *number >= 0) return number;
  return usage_error(fmt::format(
      "{}={}: expected a number from 0; give --nnodes and --rdzv-endpoint, or correct the variable",
      variable, *text));
}

LaunchResult<ClusterNode> cluster_node(const Environment& environment) {
  if (is_in_a_worker(environment)) return ClusterNode{};
  // mpirun starts its helpers by srun, so that their processes see the variables of that step, too.
  // Most launchers set the PMI's variables.
  std::string hint;
  for (const auto look : {open_mpi_node, hydra_node, slurm_node, flux_node, pmi_node, kubeflow_node,
                          kubernetes_node}) {
    auto node = look(environment);
    if (!node || !node->scheduler.empty()) return node;
    if (hint.empty()) hint = node->hint;
  }
  ClusterNode none;
  none.hint = hint;
  return none;
}

std::vector<std::string> scheduler_processes(const Environment& environment) {
  struct Row {
    std::string_view variable;
    std::string_view process;
  };
  // Debian calls Slurm's slurmstepd-wlm. Names have at most 15 bytes.
  static constexpr Row kRows[] = {
      {"SLURM_JOB_ID", "slurmstepd"},    {"OMPI_COMM_WORLD_SIZE", "orted"},
      {"OMPI_COMM_WORLD_SIZE", "prted"}, {"PMI_RANK", "hydra_pmi_proxy"},
      {"FLUX_TASK_RANK", "flux-shell"},
  };
  std::vector<std::string> names;
  if (is_in_a_worker(environment)) return names;
  for (const Row& row : kRows) {
    if (lookup(environment, row.variable)) names.emplace_back(row.process);
  }
  return names;
}

}  // namespace ddprun::launcher
