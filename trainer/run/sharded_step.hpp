// --parallel=ddp: each rank computes its shards with weights of its own, and the ranks add up their
// gradients while backward goes on.
#pragma once

#include "trainer/comm/reducer.hpp"
#include "trainer/compute/captured_work.hpp"
#include "trainer/run/shard_computer.hpp"
#include "trainer/run/training_step.hpp"

namespace ddprun::trainer {

class ShardedStep final : public TrainingStep {
 public:
  explicit ShardedStep(const StepParts& parts);

  void compute(SampleReader& samples, const StepInputs& inputs) override;
  CommResult sum(Clock::time_point deadline) override;
  void update() override;
  [[nodiscard]] std::optional<Clock::duration> exposed() const override {
    return reducer_.exposed();
  }
  void evaluate(SampleReader& samples,
                const std::function<bool(double share)>& on_progress) override;
  Counters take_counters() override { return computer_.take_counters(); }
  /// Each rank for itself: another GPU may have captured all.
  std::vector<std::string> take_warnings() override;

 private:
  StepParts parts_;
  ShardRun run_;
  Capture capture_;
  RepeatedWork update_;  // before what has memory, which waits for the device when it is freed
  Reducer reducer_;
  ShardComputer computer_;
};

}  // namespace ddprun::trainer
