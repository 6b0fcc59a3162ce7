// The program `train`, but for where its GPUs come from.
#pragma once

#include "trainer/run/plan/gpus.hpp"

namespace ddprun::trainer {

/// Gives the exit code.
int train_main(int argc, char** argv, GpuSource& gpus);

}  // namespace ddprun::trainer
