// MPI's launchers and Flux. They number their processes; where the nodes meet has to be given.
#include <algorithm>

#include <fmt/format.h>

#include "launcher/cluster/schedulers.hpp"

namespace ddprun::launcher {
namespace {

struct Names {
  std::string_view launcher;  // for people
  std::string_view size;
  std::string_view rank;
  std::string_view local_size;  // empty: it has none
  std::string_view local_rank;  // empty: it has none
  std::string_view one_each;    // what to type for one process on each node
};

LaunchResult<ClusterNode> node_of(const Environment& environment, const Names& names) {
  const auto size = count_in(environment, names.size);
  if (!size) return size.error();
  const auto rank = count_in(environment, names.rank);
  if (!rank) return rank.error();
  // A program that is started alone may start a step of another scheduler.
  if (!*size || !*rank || **size < 2) return ClusterNode{};
  if (**rank >= **size) {
    return usage_error(fmt::format("{}={}, but {}={}; give --nnodes and --node-rank", names.rank,
                                   **rank, names.size, **size));
  }
  const auto local_size = count_in(environment, names.local_size);
  if (!local_size) return local_size.error();
  const auto local_rank = count_in(environment, names.local_rank);
  if (!local_rank) return local_rank.error();
  const int here = std::max(local_size->value_or(1), local_rank->value_or(0) + 1);
  if (here > 1) {
    return usage_error(
        fmt::format("{} has started several processes on this node ({}={}), but each ddprun starts "
                    "all workers of its node; type: {} ddprun ...",
                    names.launcher, *local_size ? names.local_size : names.local_rank,
                    *local_size ? **local_size : **local_rank, names.one_each));
  }
  ClusterNode node;
  node.scheduler = names.launcher;
  node.nodes = {**size, std::string(names.size)};
  node.node_rank = {**rank, std::string(names.rank)};
  node.endpoint_advice = "--rdzv-endpoint=HOST, where HOST is one of the nodes";
  return node;
}

}  // namespace

LaunchResult<ClusterNode> open_mpi_node(const Environment& environment) {
  return node_of(environment, {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                               "mpirun --map-by ppr:1:node"});
}

LaunchResult<ClusterNode> hydra_node(const Environment& environment) {
  if (!lookup(environment, "MPI_LOCALRANKID")) return ClusterNode{};
  return node_of(environment, {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS",
                               "MPI_LOCALRANKID", "mpiexec -ppn 1"});
}

LaunchResult<ClusterNode> flux_node(const Environment& environment) {
  auto node = node_of(environment, {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "",
                                    "FLUX_TASK_LOCAL_ID", "flux run --tasks-per-node=1"});
  const auto id = lookup(environment, "FLUX_JOB_ID");
  if (node && !node->scheduler.empty() && id) node->run_id = {*id, "FLUX_JOB_ID"};
  return node;
}

LaunchResult<ClusterNode> pmi_node(const Environment& environment) {
  auto node = node_of(environment, {"the MPI launcher", "PMI_SIZE", "PMI_RANK", "PMI_LOCAL_SIZE",
                                    "PMI_LOCAL_RANK", "MPI's launcher with one process per node:"});
  if (!node || !node->scheduler.empty()) return node;
  const auto rank = count_in(environment, "PMIX_RANK");
  if (!rank) return rank.error();
  if (!*rank) return node;
  node->scheduler = "the PMIx launcher";
  node->node_rank = {**rank, "PMIX_RANK"};
  return node;
}

}  // namespace ddprun::launcher
