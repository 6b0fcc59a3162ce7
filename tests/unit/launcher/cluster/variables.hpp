// Variables as schedulers set them.
#pragma once

#include <string>

#include "launcher/options/environment.hpp"

namespace ddprun::launcher::test {

/// Those of Slurm 22.05 for one task of a step on n2 and n3 of a job on n1, n2 and n3.
inline Environment slurm_step(int node_rank) {
  const std::string rank = std::to_string(node_rank);
  return {{"SLURMD_NODENAME", "n" + std::to_string(node_rank + 2)},
          {"SLURM_JOB_ID", "17"},
          {"SLURM_JOB_NODELIST", "n[1-3]"},
          {"SLURM_JOB_NUM_NODES", "3"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.99"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NNODES", "3"},
          {"SLURM_NODEID", rank},
          {"SLURM_PROCID", rank},
          {"SLURM_STEP_ID", "4"},
          {"SLURM_STEP_NODELIST", "n[2-3]"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
}

/// Those of `mpirun` of Open MPI 4.1, one process on each of two nodes.
inline Environment open_mpi(int rank) {
  return {{"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
          {"PMIX_RANK", std::to_string(rank)}};
}

}  // namespace ddprun::launcher::test
