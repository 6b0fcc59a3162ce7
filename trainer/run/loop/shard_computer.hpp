// Computes shards and evaluates samples on the lanes of one worker: fills batches from a data set
// and runs them through executors. Knows nothing of other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/reducer.hpp"
#include "trainer/run/loop/compute_lane.hpp"
#include "trainer/run/loop/lanes.hpp"
#include "trainer/run/report/score.hpp"

namespace ddprun::trainer {

class ShardComputer {
 public:
  using Settings = ComputeLane::Settings;

  /// Graph, device, lanes and preparation outlive the computer.
  ShardComputer(const Graph& graph, Device& device, Lanes& lanes, const Preparation& preparation,
                const Settings& settings);
  /// Each lane computes on a device of its own, which outlives the computer.
  ShardComputer(const Graph& graph, std::span<Device* const> devices, Lanes& lanes,
                const Preparation& preparation, const Settings& settings);

  /// Computes the shards of `run`, handing their gradients to `reducer` as they become final.
  /// `samples` expects those of `run` since some step. With one device.
  void train(SampleReader& samples, const StepInputs& inputs, ShardRun run, Reducer& reducer);

  /// Cuts the set into batches, the last one incomplete, and computes the batches rank,
  /// rank + world_size, ... A sample's loss does not depend on the world size. `on_progress`:
  /// called by the calling thread after each batch of its own, with the share of the rank's samples
  /// done; false: the batches that are left are not computed. `classes`: one for each class of a
  /// classifier, to which the rank's samples are added; empty: they are not looked at one by one.
  void evaluate(
      SampleReader& samples, int rank, int world_size, const Weights& weights,
      const std::function<bool(double share)>& on_progress = [](double) { return true; },
      std::span<ClassCount> classes = {});
  /// Gives each lane weights of its own.
  void evaluate(SampleReader& samples, int rank, int world_size,
                const std::function<Weights(int lane)>& weights,
                const std::function<bool(double share)>& on_progress,
                std::span<ClassCount> classes);

  [[nodiscard]] ComputeLane& lane(int index) {
    return *lane_state_[static_cast<std::size_t>(index)];
  }

  /// What the samples since the last call came to. Waits for the device.
  Counters take_counters();

 private:
  Lanes& lanes_;
  Settings settings_;
  std::vector<std::unique_ptr<ComputeLane>> lane_state_;
};

}  // namespace ddprun::trainer
