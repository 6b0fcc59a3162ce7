// The program `train`.
#include "trainer/run/train_main.hpp"

int main(int argc, char** argv) {
  ddprun::trainer::MachineGpus gpus;
  return ddprun::trainer::train_main(argc, argv, gpus);
}
