// How fast NCCL sums over the GPUs of a job through our loader and communicator: the table of
// nccl-tests' all_reduce_perf, in place, in fp32.
#pragma once

#include "trainer/run/plan/gpus.hpp"

namespace ddprun::bench {

/// One worker of the job. Returns the exit code: 0; 1: it failed, a peer was lost, or a sum was
/// wrong; 2: unusable options or environment, or no GPU.
int bench_nccl_main(int argc, char** argv, trainer::GpuSource& gpus);

}  // namespace ddprun::bench
