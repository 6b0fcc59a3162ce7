// The program bench_nccl.
#include "bench/nccl/all_reduce_rates.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::MachineGpus gpus;
  return ddprun::bench::bench_nccl_main(argc, argv, gpus);
}
