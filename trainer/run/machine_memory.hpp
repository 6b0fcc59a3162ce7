// How much memory this machine, or the cgroup that we are in, has for the programs in it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ddprun::trainer {

/// In bytes.
struct MachineMemory {
  std::uint64_t most = 0;       ///< RAM and swap, or the cgroup's limit if that is less; 0: unknown
  std::uint64_t available = 0;  ///< of it now, with what files can give back
  bool is_cgroup = false;       ///< a cgroup's limit is what counts
  std::uint64_t address_space = 0;  ///< this process's limit (RLIMIT_AS); 0: none
};

/// Reads /proc/meminfo, the limits of our cgroup (version 2 or 1) and those above it, and that of
/// our address space. What cannot be read does not count. `root` stands before all paths, for
/// tests.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

}  // namespace ddprun::trainer
