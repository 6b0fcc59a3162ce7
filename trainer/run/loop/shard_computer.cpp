#include "trainer/run/loop/shard_computer.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/assert.hpp"

namespace ddprun::trainer {

ShardComputer::ShardComputer(const Graph& graph, Device& device, Lanes& lanes,
                             const Preparation& preparation, const Settings& settings)
    : ShardComputer(graph, std::vector<Device*>(static_cast<std::size_t>(lanes.count()), &device),
                    lanes, preparation, settings) {}

ShardComputer::ShardComputer(const Graph& graph, std::span<Device* const> devices, Lanes& lanes,
                             const Preparation& preparation, const Settings& settings)
    : lanes_(lanes), settings_(settings) {
  DDPRUN_ASSERT(static_cast<int>(devices.size()) == lanes.count(), "one device for each lane");
  for (Device* const device : devices)
    lane_state_.push_back(std::make_unique<ComputeLane>(graph, *device, preparation, settings));
}

void ShardComputer::train(SampleReader& samples, const StepInputs& inputs, ShardRun run,
                          Reducer& reducer) {
  std::atomic<int> next{run.first};
  const auto work = [&](int index) {
    ComputeLane& one = lane(index);
    for (int shard = next++; shard < run.first + run.count; shard = next++) {
      const std::size_t first =
          inputs.first_place + static_cast<std::size_t>(shard - run.first) * inputs.batch();
      const Batch filled = one.shard(samples, inputs, shard, first);
      one.executor().compute(
          filled, inputs.weights,
          {.seed = settings_.seed,
           .state = inputs.state_of(shard),
           .shard = shard,
           .shards = settings_.shards},
          one.counters(), [&reducer, shard] { return reducer.begin_shard(shard); },
          [&reducer, shard](std::size_t end) { reducer.final_up_to(shard, end); });
    }
  };
  lanes_.run(std::ref(work));
}

void ShardComputer::evaluate(SampleReader& samples, int rank, int world_size,
                             const Weights& weights,
                             const std::function<bool(double share)>& on_progress,
                             std::span<ClassCount> classes) {
  evaluate(
      samples, rank, world_size, [&](int) { return weights; }, on_progress, classes);
}

void ShardComputer::evaluate(SampleReader& samples, int rank, int world_size,
                             const std::function<Weights(int lane)>& weights,
                             const std::function<bool(double share)>& on_progress,
                             std::span<ClassCount> classes) {
  const auto batch = static_cast<std::size_t>(settings_.executor.batch);
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t size = samples.set().size();
  const std::size_t batches = (size + batch - 1) / batch;
  const auto mine = static_cast<std::size_t>(rank);
  const std::size_t batches_mine = batches > mine ? (batches - mine + ranks - 1) / ranks : 0;
  // Batch k of mine begins with sample (mine + k x ranks) x batch.
  const auto sample_in = [&](std::size_t place) {
    return (mine + place / batch * ranks) * batch + place % batch;
  };
  const bool has_last = batches > 0 && (batches - 1) % ranks == mine;
  samples.expect(batches_mine * batch - (has_last ? batches * batch - size : 0), sample_in);
  std::atomic<std::size_t> next{mine};
  std::atomic<std::size_t> done{0};
  std::mutex counting;  // guards `classes`
  const auto work = [&](int index) {
    ComputeLane& one = lane(index);
    std::vector<float> logits(classes.size() * batch);
    for (std::size_t turn = next.fetch_add(ranks); turn < batches; turn = next.fetch_add(ranks)) {
      const std::size_t first = turn * batch;
      const Batch filled = one.held_out(samples, first, std::min(batch, size - first),
                                        (turn - mine) / ranks * batch);
      one.executor().evaluate(filled, weights(index), static_cast<int>(turn), one.counters());
      if (!classes.empty()) {
        const auto values = std::span(logits).first(filled.labels.size() * classes.size());
        one.executor().copy_logits(values);
        const std::lock_guard lock(counting);
        count_classes(filled.labels, values, classes);
      }
      const std::size_t so_far = ++done;
      if (index == 0 &&
          !on_progress(static_cast<double>(so_far) / static_cast<double>(batches_mine)))
        next = batches;
    }
  };
  lanes_.run(std::ref(work));
}

Counters ShardComputer::take_counters() {
  Counters total;
  for (const auto& one : lane_state_) total += one->take_counters();
  return total;
}

}  // namespace ddprun::trainer
