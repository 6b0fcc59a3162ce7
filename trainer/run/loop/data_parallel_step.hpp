// --parallel=dp: what torch.nn.DataParallel does, in one process. Replica 0 has the weights, the
// optimizer and the loss; the others get copies of the weights in each step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/reducer.hpp"
#include "trainer/compute/gathered_loss.hpp"
#include "trainer/model/parameter.hpp"
#include "trainer/run/loop/shard_computer.hpp"
#include "trainer/run/loop/training_step.hpp"
#include "trainer/run/report/data_parallel_figures.hpp"

namespace ddprun::trainer {

/// Each replica is a device with memory of its own, and is computed by a lane of its own. All are
/// CPUs: one copies from another's memory as from the host's. In a step each replica computes one
/// shard, or, one after another, V / replicas of them. So samples, dropout and the order of the
/// sums are those of V shards, and the weights have the same bits. But the running statistics of
/// batch norm are those of replica 0's shards alone.
class DataParallelStep final : public TrainingStep {
 public:
  /// Replica 0 is the parts' device, which has the learner and the communicator's arena. One lane
  /// for each replica, and plan.replicas divides plan.shards. Of a world of one.
  explicit DataParallelStep(const StepParts& parts);

  void compute(SampleReader& samples, const StepInputs& inputs) override;
  CommResult sum(Clock::time_point deadline) override { return reducer_.finish_step(deadline); }
  void update() override;
  /// All of its communication is waited for.
  [[nodiscard]] std::optional<Clock::duration> exposed() const override { return exposed_; }
  void evaluate(SampleReader& samples,
                const std::function<bool(double share)>& on_progress) override;
  Counters take_counters() override { return computer_.take_counters(); }
  [[nodiscard]] std::uint64_t further_peak_bytes() const override;
  void report_to(Outcome& outcome) const override;

 private:
  /// What a replica other than 0 has of its own beside its lane.
  struct Copy {
    DeviceMemory parameters;
    DeviceMemory stored;  // in the storage type; fp32: empty
    DeviceMemory state;   // one StepState
    DeviceMemory gradients;
  };

  void copy_weights(int replica);
  void compute_round(SampleReader& samples, const StepInputs& inputs, int first_shard);
  void reduce(int first_shard);
  void time(DataParallelPhase phase, const std::function<void()>& work);
  void on_replicas(DataParallelPhase phase, const std::function<void(int replica)>& work);
  [[nodiscard]] Device& device(int replica) const {
    return *devices_[static_cast<std::size_t>(replica)];
  }
  [[nodiscard]] const Copy& copy(int replica) const {
    return copies_[static_cast<std::size_t>(replica - 1)];
  }
  [[nodiscard]] Weights weights(int replica) const;
  [[nodiscard]] ShardId shard_id(int shard, const StepState* state) const;

  StepParts parts_;
  Storage storage_;
  std::vector<std::unique_ptr<Device>> others_;
  std::vector<Device*> devices_;  // of all replicas
  std::vector<Range> statistics_;
  std::vector<Copy> copies_;
  Reducer reducer_;  // on replica 0
  ShardComputer computer_;
  GatheredLoss loss_;           // on replica 0
  std::vector<Batch> batches_;  // of each replica
  DataParallelFigures figures_;
  Clock::duration exposed_{};
};

/// Where statistics are in an arena. `parameters` have rising offsets; neighbours are one range,
/// with the padding between them. Pure.
std::vector<Range> statistic_ranges(std::span<const Parameter> parameters);

}  // namespace ddprun::trainer
