#include "trainer/run/shard_computer.hpp"

#include <algorithm>
#include <atomic>
#include <functional>

namespace ddprun::trainer {
namespace {

/// Reads samples sample(0) .. sample(count - 1) of the set into the front of `images` and `labels`.
template <class Sample>
Batch fill(const DataSet& set, int count, std::size_t sample_floats, std::span<float> images,
           std::span<std::int32_t> labels, const Sample& sample) {
  for (int item = 0; item < count; ++item) {
    const auto place = static_cast<std::size_t>(item);
    labels[place] = set.read(sample(item), images.subspan(place * sample_floats, sample_floats));
  }
  const auto filled = static_cast<std::size_t>(count);
  return {.images = images.first(filled * sample_floats), .labels = labels.first(filled)};
}

}  // namespace

ShardComputer::ShardComputer(const Model& model, Lanes& lanes, Settings settings, ImageShape shape)
    : model_(model),
      lanes_(lanes),
      settings_(settings),
      sample_floats_(sample_size(shape)),
      lane_state_(static_cast<std::size_t>(lanes.count())) {
  const auto batch = static_cast<std::size_t>(settings_.batch);
  for (Lane& lane : lane_state_) {
    lane.images.resize(batch * sample_floats_);
    lane.labels.resize(batch);
  }
}

Executor& ShardComputer::executor(Lane& lane, int batch) {
  std::unique_ptr<Executor>& slot = lane.executors[batch];
  if (!slot) slot = model_.make_executor(batch, settings_.precision, settings_.threads_per_shard);
  return *slot;
}

MetricSums ShardComputer::take_sums() {
  MetricSums total;
  for (Lane& lane : lane_state_) {
    total += lane.sums;
    lane.sums = {};
  }
  return total;
}

MetricSums ShardComputer::train(const DataSet& set, const EpochOrder& order, std::size_t step,
                                int shards, ShardRun run, std::span<const float> parameters,
                                LossScales scales, Reducer& reducer) {
  const int batch = order.batch_of(step);
  std::atomic<int> next{run.first};
  const auto work = [&](int index) {
    Lane& lane = lane_state_[static_cast<std::size_t>(index)];
    for (int shard = next++; shard < run.first + run.count; shard = next++) {
      const Batch samples = fill(set, batch, sample_floats_, lane.images, lane.labels,
                                 [&](int item) { return order.sample(step, shard, item); });
      const BatchResult result =
          executor(lane, batch)
              .train(samples, parameters, shard == 0 ? scales.first_shard : scales.others, shards,
                     reducer.begin_shard(shard),
                     [&reducer, shard](std::size_t end) { reducer.final_up_to(shard, end); });
      lane.sums.add(result.loss_sum, result.correct, result.count);
    }
  };
  lanes_.run(std::ref(work));
  return take_sums();
}

MetricSums ShardComputer::evaluate(const DataSet& set, int rank, int world_size,
                                   std::span<const float> parameters) {
  const auto batch = static_cast<std::size_t>(settings_.batch);
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t batches = (set.size() + batch - 1) / batch;
  std::atomic<std::size_t> next{static_cast<std::size_t>(rank)};
  const auto work = [&](int index) {
    Lane& lane = lane_state_[static_cast<std::size_t>(index)];
    for (std::size_t turn = next.fetch_add(ranks); turn < batches; turn = next.fetch_add(ranks)) {
      const std::size_t first = turn * batch;
      const Batch samples = fill(set, static_cast<int>(std::min(batch, set.size() - first)),
                                 sample_floats_, lane.images, lane.labels,
                                 [&](int item) { return first + static_cast<std::size_t>(item); });
      // The last batch is incomplete; an executor of its own size would cost memory and bits.
      const BatchResult result = executor(lane, settings_.batch).evaluate(samples, parameters);
      lane.sums.add(result.loss_sum, result.correct, result.count);
    }
  };
  lanes_.run(std::ref(work));
  return take_sums();
}

}  // namespace ddprun::trainer
