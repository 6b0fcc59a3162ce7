// How many CPUs this process can really use, and how many threads each worker should start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/cpus/cpu_set.hpp"

namespace ddprun::machine {

/// How many CPUs' time our cgroups grant, the least of all levels: 2.5 is two and a half. None: no
/// limit, or none that can be read. `root` stands before every path.
std::optional<double> cgroup_cpu_quota(const std::string& root = "");

/// The CPUs that a job can keep busy: those allowed, and of the quota the whole ones, because a
/// thread more makes the kernel stop all of them at the end of each period. At least 1.
int usable_cpus(const CpuSet& allowed, std::optional<double> quota);

/// Threads for each of equal workers; at least 1.
int omp_threads(int usable, int local_workers);

/// Threads for each worker with a set of its own: its logical CPUs, those that it shares with n
/// workers counted as 1/n, less in proportion where `usable` is below the CPUs of all sets; at
/// least 1.
std::vector<int> omp_threads(int usable, const std::vector<CpuSet>& sets);

}  // namespace ddprun::machine
