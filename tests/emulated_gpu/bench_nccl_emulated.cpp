// The program bench_nccl with emulated GPUs in place of the machine's (emulated_gpus.hpp).
#include "bench/nccl/all_reduce_rates.hpp"
#include "tests/emulated_gpu/emulated_gpus.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::test::EmulatedGpus gpus;
  return ddprun::bench::bench_nccl_main(argc, argv, gpus);
}
