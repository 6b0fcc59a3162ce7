#include "trainer/run/training_step.hpp"

#include "trainer/run/data_parallel_step.hpp"
#include "trainer/run/sharded_step.hpp"

namespace ddprun::trainer {

std::unique_ptr<TrainingStep> make_training_step(const StepParts& parts) {
  if (parts.options.device.parallel == Parallel::dp)
    return std::make_unique<DataParallelStep>(parts);
  return std::make_unique<ShardedStep>(parts);
}

}  // namespace ddprun::trainer
