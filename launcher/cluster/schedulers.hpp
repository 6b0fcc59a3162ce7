// The schedulers, one function each. For cluster_node.cpp only, but for what plans need of Slurm.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/cluster/cluster_node.hpp"

namespace ddprun::launcher {

/// A step that srun has started. Where there is a job without a step, only a hint.
LaunchResult<ClusterNode> slurm_node(const Environment& environment);
/// mpirun of Open MPI.
LaunchResult<ClusterNode> open_mpi_node(const Environment& environment);
/// mpiexec of MPICH and of Intel's MPI (Hydra).
LaunchResult<ClusterNode> hydra_node(const Environment& environment);
LaunchResult<ClusterNode> flux_node(const Environment& environment);
/// Another launcher that sets PMI_RANK and PMI_SIZE, or PMIX_RANK alone.
LaunchResult<ClusterNode> pmi_node(const Environment& environment);
/// A PyTorchJob of Kubeflow, which gives the address as MASTER_ADDR.
LaunchResult<ClusterNode> kubeflow_node(const Environment& environment);
/// A pod of a Job with completion indexes, or of a JobSet.
LaunchResult<ClusterNode> kubernetes_node(const Environment& environment);

/// Nodes of the step, else of the job; 1 outside Slurm.
long long slurm_nodes(const Environment& environment);

/// The variable as a number from 0; none: it is not set. Errors: it is something else.
LaunchResult<std::optional<int>> count_in(const Environment& environment,
                                          std::string_view variable);

}  // namespace ddprun::launcher
