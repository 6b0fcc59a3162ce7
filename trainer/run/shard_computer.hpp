// Computes shards and evaluates samples on the lanes of one worker: fills batches from a data set
// and runs them through executors. Knows nothing of other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/comm/reducer.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/lanes.hpp"

namespace ddprun::trainer {

/// Where the loss scale is read while a shard is computed.
struct LossScales {
  /// Of shard 0: apart, so that a test can make its gradients infinite.
  const float* first_shard = nullptr;
  const float* others = nullptr;
};

class ShardComputer {
 public:
  struct Settings {
    int batch = 1;  ///< the largest one that is asked for
    Precision precision = Precision::fp32;
    int threads_per_shard = 1;
  };

  /// All three outlive the computer.
  ShardComputer(const Model& model, Lanes& lanes, Settings settings, ImageShape shape);

  /// Computes the shards of `run` in `step` of `order`, handing their gradients to `reducer` as
  /// they become final. Gives the sums over these shards' samples.
  MetricSums train(const DataSet& set, const EpochOrder& order, std::size_t step, int shards,
                   ShardRun run, std::span<const float> parameters, LossScales scales,
                   Reducer& reducer);

  /// Cuts the set into batches, the last one incomplete, and gives the sums over the batches rank,
  /// rank + world_size, ... So the sums over all ranks have the same bits for every world size.
  MetricSums evaluate(const DataSet& set, int rank, int world_size,
                      std::span<const float> parameters);

 private:
  /// What one lane uses alone.
  struct Lane {
    /// By batch size: the usual one, and that of an epoch's last training step.
    std::map<int, std::unique_ptr<Executor>> executors;
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    MetricSums sums;
  };

  Executor& executor(Lane& lane, int batch);
  MetricSums take_sums();

  const Model& model_;
  Lanes& lanes_;
  Settings settings_;
  std::size_t sample_floats_;
  std::vector<Lane> lane_state_;
};

}  // namespace ddprun::trainer
