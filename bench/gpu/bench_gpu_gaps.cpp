// The program bench_gpu_gaps: `train` with the same arguments on one GPU, for which it prints the
// share of a step in which the GPU's compute stream had nothing to do, and how fast the optimizer's
// pass went through memory.
#include "bench/gpu/gpu_gaps.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::MachineGpus gpus;
  return ddprun::bench::bench_gpu_gaps_main(argc, argv, gpus, 20);
}
