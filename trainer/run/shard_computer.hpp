// Computes shards and evaluates samples on the lanes of one worker: fills batches from a data set
// and runs them through executors. Knows nothing of other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/reducer.hpp"
#include "trainer/compute/graph_executor.hpp"
#include "trainer/data/sample_reader.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/run/class_counts.hpp"
#include "trainer/run/lanes.hpp"
#include "trainer/run/preparation.hpp"
#include "trainer/run/stored_sets.hpp"

namespace ddprun::trainer {

/// What the shards of a step have alike.
struct StepInputs {
  const EpochOrder& order;
  std::uint64_t epoch = 0;
  std::size_t step = 0;         ///< of the epoch
  std::size_t first_place = 0;  ///< ShardSamples::place() of the step
  Weights weights;
  /// In the device's memory. Of shard 0: apart, so that a test can make its gradients infinite.
  const StepState* first_shard = nullptr;
  const StepState* others = nullptr;
};

class ShardComputer {
 public:
  struct Settings {
    GraphExecutor::Settings executor;
    std::uint64_t seed = 0;
    int shards = 1;                      ///< V
    const StoredSets* stored = nullptr;  ///< on the device; outlives the computer; null: none
  };

  /// Graph, device, lanes and preparation outlive the computer.
  ShardComputer(const Graph& graph, Device& device, Lanes& lanes, const Preparation& preparation,
                Settings settings);

  /// Computes the shards of `run`, handing their gradients to `reducer` as they become final.
  /// `samples` expects those of `run` since some step.
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

  /// Of the host's memory, for each lane: the samples of a shard on their way to the device.
  /// `stored`: pictures as the data set has them.
  static std::uint64_t host_bytes(const Graph& graph, int batch, ImageShape stored);

  /// What the samples since the last call came to. Waits for the device.
  Counters take_counters();

 private:
  /// What one lane uses alone.
  struct Lane {
    GraphExecutor executor;
    DeviceMemory counters;  // one Counters
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> masks;            // empty: there are labels
    std::vector<ImageWindow> windows;           // empty: pictures are seen as they are stored
    std::vector<std::int32_t> tokens, lengths;  // empty: there are images
    std::vector<StoredRow> rows, mask_rows;     // of samples that are stored on the device
  };
  /// The samples of one batch.
  struct Fill {
    SampleReader& samples;
    std::size_t count;
    std::size_t first_place;  // what `samples` expects the first one in
    std::function<std::size_t(std::size_t item)> sample;
    std::function<ImageWindow(std::size_t sample)> window;
  };

  /// Runs `work` on every lane.
  void on_lanes(const std::function<void(Lane&)>& work);
  Batch fill(Lane& lane, const Fill& from) const;
  Batch fill_images(Lane& lane, const Fill& from) const;
  void read_images(Lane& lane, const Fill& from, Batch& batch) const;
  void find_images(Lane& lane, const Fill& from, const StoredSet& stored, Batch& batch) const;
  /// As wide as its longest text asks for, so a function of the samples alone.
  Batch fill_texts(Lane& lane, const Fill& from) const;
  void read_texts(Lane& lane, const Fill& from, Batch& batch) const;
  void find_texts(Lane& lane, const Fill& from, const StoredSet& stored, Batch& batch) const;
  [[nodiscard]] const StoredSet* stored(const DataSet& set) const {
    return settings_.stored == nullptr ? nullptr : settings_.stored->find(set);
  }
  void clear_counters(Lane& lane);
  static Counters& counters_of(const Lane& lane) { return lane.counters.as<Counters>().front(); }

  Device& device_;
  Lanes& lanes_;
  const Preparation& preparation_;
  Settings settings_;
  std::size_t stored_pixels_;  // of a picture as its set has it
  std::size_t stored_mask_;    // pixels of a mask as its set has it; 0: labels
  int positions_;              // 0: images
  std::vector<std::unique_ptr<Lane>> lane_state_;
};

}  // namespace ddprun::trainer
