// The program train with emulated GPUs in place of the machine's (emulated_gpus.hpp):
// --device=cuda and auto find one of them for each worker.
#include "tests/emulated_gpu/emulated_gpus.hpp"
#include "trainer/run/train_main.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::test::EmulatedGpus gpus;
  return ddprun::trainer::train_main(argc, argv, gpus);
}
