// The program bench_gpu_gaps with emulated GPUs in place of the machine's.
#include "bench/gpu/gpu_gaps.hpp"
#include "tests/emulated_gpu/emulated_gpus.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::test::EmulatedGpus gpus;
  return ddprun::bench::bench_gpu_gaps_main(argc, argv, gpus, 3);
}
