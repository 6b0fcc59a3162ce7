// The program bench_gpu_gaps, but for where its GPUs come from.
#pragma once

#include <cstdint>

#include "trainer/run/plan/gpus.hpp"

namespace ddprun::bench {

/// Trains as `train` with the same arguments, and prints one line of JSON at the end. Gives the
/// exit code. `warm_up`: steps that are not measured.
int bench_gpu_gaps_main(int argc, char** argv, trainer::GpuSource& gpus, std::uint64_t warm_up);

}  // namespace ddprun::bench
