// Sets of logical CPUs: their text form and the kernel's masks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "machine/cpus/placement_error.hpp"

namespace ddprun::machine {

/// Numbers of logical CPUs, ascending, each once.
using CpuSet = std::vector<int>;

/// Far above what any kernel numbers (8191 on x86-64); bounds the memory that a text can ask for.
inline constexpr int kCpuNumberMax = 65'535;

/// `0-3,8,10-11`, as the kernel, taskset and numactl write it. Empty for the empty set.
std::string format_cpus(const CpuSet& cpus);

/// Reads what format_cpus writes: numbers and ranges, in any order, blanks around them allowed. An
/// empty text names no CPU and is an error.
Placed<CpuSet> parse_cpus(std::string_view text);

/// The kernel's form for sched_setaffinity: bit n is CPU n, as many words as the highest needs.
std::vector<unsigned long> affinity_mask(const CpuSet& cpus);

/// Where the calling thread may run, on machines of any size. Errors: those of sched_getaffinity.
Result<CpuSet> allowed_cpus();

}  // namespace ddprun::machine
