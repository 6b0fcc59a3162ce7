// What one lane of a worker computes with, alone: room for the samples of a batch in the host's
// memory, an executor, and counters on its device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/compute/graph_executor.hpp"
#include "trainer/data/sample_reader.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/run/loop/stored_sets.hpp"
#include "trainer/run/plan/preparation.hpp"

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

  /// Samples in each shard of the step.
  [[nodiscard]] std::size_t batch() const { return static_cast<std::size_t>(order.batch_of(step)); }
  [[nodiscard]] const StepState* state_of(int shard) const {
    return shard == 0 ? first_shard : others;
  }
};

/// For one thread at a time.
class ComputeLane {
 public:
  struct Settings {
    GraphExecutor::Settings executor;
    std::uint64_t seed = 0;
    int shards = 1;                      ///< V
    const StoredSets* stored = nullptr;  ///< on the device; outlives the lane; null: none
  };
  /// Graph, device and preparation outlive the lane.
  ComputeLane(const Graph& graph, Device& device, const Preparation& preparation,
              const Settings& settings);

  /// The samples of a shard, which `samples` expects from `first_place` on. Valid until the next
  /// batch.
  Batch shard(SampleReader& samples, const StepInputs& inputs, int shard, std::size_t first_place);
  /// `count` samples from `first` on, in their order.
  Batch held_out(SampleReader& samples, std::size_t first, std::size_t count,
                 std::size_t first_place);

  [[nodiscard]] GraphExecutor& executor() { return executor_; }
  /// In the device's memory.
  [[nodiscard]] Counters& counters() const { return counters_.as<Counters>().front(); }
  /// What the samples since the last call came to. Waits for the device.
  Counters take_counters();

 private:
  /// The samples of one batch.
  struct Fill {
    SampleReader& samples;
    std::size_t count;
    std::size_t first_place;  // what `samples` expects the first one in
    std::function<std::size_t(std::size_t item)> sample;
    std::function<ImageWindow(std::size_t sample)> window;
  };

  Batch fill(const Fill& from);
  Batch fill_images(const Fill& from);
  void read_images(const Fill& from, Batch& batch);
  void find_images(const Fill& from, const StoredSet& stored, Batch& batch);
  /// As wide as its longest text asks for, so a function of the samples alone.
  Batch fill_texts(const Fill& from);
  void read_texts(const TextSet& set, const Fill& from, Batch& batch);
  void find_texts(const Fill& from, const StoredSet& stored, Batch& batch);
  [[nodiscard]] const StoredSet* stored(const DataSet& set) const {
    return stored_ == nullptr ? nullptr : stored_->find(set);
  }
  void clear_counters();

  Device& device_;
  const Preparation& preparation_;
  std::uint64_t seed_;
  std::size_t stored_pixels_;  // of a picture as its set has it
  std::size_t stored_mask_;    // pixels of a mask as its set has it; 0: labels
  int positions_;              // 0: images
  const StoredSets* stored_;   // null: none
  GraphExecutor executor_;
  DeviceMemory counters_;  // one Counters
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint8_t> masks_;             // empty: there are labels
  std::vector<ImageWindow> windows_;            // empty: pictures are seen as they are stored
  std::vector<std::int32_t> tokens_, lengths_;  // empty: there are images
  std::vector<StoredRow> rows_, mask_rows_;     // of samples that are stored on the device
};

}  // namespace ddprun::trainer
