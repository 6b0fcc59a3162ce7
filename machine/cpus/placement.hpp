// On which CPUs each worker runs: torchrun's --numa-binding, and what we do without GPUs. Pure.
#pragma once

#include <string>
#include <vector>

#include "machine/cpus/cpu_set.hpp"
#include "machine/cpus/placement_error.hpp"
#include "machine/cpus/topology.hpp"

namespace ddprun::machine {

/// Which CPUs a worker gets, always among those that this process may use.
enum class NumaBinding {
  node,          ///< all of its GPU's NUMA node
  socket,        ///< all of the NUMA nodes in the same physical package
  exclusive,     ///< its share of the node's physical cores, which no other GPU gets
  core_complex,  ///< those that share one last-level cache, another one for each GPU
};

/// One set of CPUs, never empty, for each local rank.
///
/// `gpus` are the PCI addresses of all GPUs that workers see, in CUDA's order: local rank i uses
/// number i. Those without a worker still get their share of an exclusive split. An empty address
/// is a GPU of unknown place, which is fine where only one NUMA node has CPUs.
///
/// Without GPUs the local ranks spread over the NUMA nodes in order, by their numbers of physical
/// cores, and the same rules follow.
///
/// Errors, in words: a GPU of unknown place, a worker without GPU, a node without CPUs of ours, an
/// exclusive split with fewer cores than GPUs.
Placed<std::vector<CpuSet>> place_workers(const MachineTopology& topology, NumaBinding mode,
                                          int local_workers, const std::vector<std::string>& gpus);

}  // namespace ddprun::machine
