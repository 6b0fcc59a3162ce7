// What the kernel tells in sysfs about the places of CPUs and GPUs. Reads only; decisions are made
// in placement.hpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "machine/cpus/cpu_set.hpp"

namespace ddprun::machine {

/// The place of one logical CPU.
struct CpuPlace {
  int cpu = 0;
  bool allowed = true;  ///< this process may run there
  int node = 0;         ///< NUMA node
  int package = 0;      ///< physical package, a socket
  int core = 0;         ///< the same number for SMT siblings, and for no other CPU
  int cache = 0;        ///< the same number for those that share their last-level cache
};

struct MachineTopology {
  std::vector<CpuPlace> cpus;            ///< those online, ascending by number
  std::map<std::string, int> pci_nodes;  ///< PCI address -> NUMA node; -1 is read as 0
};

/// Reads the topology below `sysfs`. Devices that sysfs does not know are left out of `pci_nodes`.
/// Never fails: what is missing or garbage there counts as a plain machine (node 0, package 0, a
/// core for each CPU, a last-level cache for each node).
MachineTopology read_topology(const CpuSet& allowed, const std::vector<std::string>& pci_addresses,
                              const std::string& sysfs = "/sys");

}  // namespace ddprun::machine
