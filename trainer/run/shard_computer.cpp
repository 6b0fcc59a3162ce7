#include "trainer/run/shard_computer.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace ddprun::trainer {

ShardComputer::ShardComputer(const Graph& graph, Device& device, Lanes& lanes, Settings settings)
    : device_(device),
      lanes_(lanes),
      settings_(settings),
      sample_pixels_(graph.layers().front().output.count()),
      mask_floats_(graph.target() == Target::mask ? graph.logits().count() : 0),
      positions_(graph.text().positions) {
  const auto positions = static_cast<std::size_t>(positions_);
  const auto batch = static_cast<std::size_t>(settings_.executor.batch);
  for (int lane = 0; lane < lanes.count(); ++lane) {
    lane_state_.push_back(std::unique_ptr<Lane>(
        new Lane{.executor = GraphExecutor(graph, device, settings_.executor),
                 .counters = device.allocate(sizeof(Counters)),
                 .pixels = std::vector<std::uint8_t>(batch * sample_pixels_),
                 .labels = std::vector<std::int32_t>(batch),
                 .masks = std::vector<float>(batch * mask_floats_),
                 .tokens = std::vector<std::int32_t>(batch * positions),
                 .lengths = std::vector<std::int32_t>(positions > 0 ? batch : 0)}));
    clear_counters(*lane_state_.back());
  }
}

std::uint64_t ShardComputer::host_bytes(const Graph& graph, int batch) {
  const std::size_t mask = graph.target() == Target::mask ? graph.logits().count() : 0;
  const std::size_t pixels = graph.layers().front().output.count();
  const auto positions = static_cast<std::size_t>(graph.text().positions);
  const std::size_t words = 1 + mask + (positions > 0 ? positions + 1 : 0);
  return static_cast<std::uint64_t>(batch) * (pixels + words * sizeof(float));
}

void ShardComputer::on_lanes(const std::function<void(Lane&)>& work) {
  const auto one = [&](int lane) { work(*lane_state_[static_cast<std::size_t>(lane)]); };
  lanes_.run(std::ref(one));
}

/// Reads samples sample(0) .. sample(count - 1) of the set.
Batch ShardComputer::fill(Lane& lane, const DataSet& set, std::size_t count,
                          const Sample& sample) const {
  return positions_ > 0 ? fill_texts(lane, set, count, sample)
                        : fill_images(lane, set, count, sample);
}

Batch ShardComputer::fill_texts(Lane& lane, const DataSet& set, std::size_t count,
                                const Sample& sample) const {
  int longest = 1;
  for (std::size_t item = 0; item < count; ++item) {
    lane.lengths[item] = set.length(sample(item));
    longest = std::max(longest, lane.lengths[item]);
  }
  const int width = padded_length(longest, positions_);
  const auto row = static_cast<std::size_t>(width);
  const std::span<std::int32_t> tokens = std::span(lane.tokens).first(count * row);
  std::fill(tokens.begin(), tokens.end(), 0);
  for (std::size_t item = 0; item < count; ++item) {
    const auto length = static_cast<std::size_t>(lane.lengths[item]);
    lane.labels[item] = set.read_tokens(sample(item), tokens.subspan(item * row, length));
  }
  return {.labels = std::span(lane.labels).first(count),
          .tokens = tokens,
          .lengths = std::span(lane.lengths).first(count),
          .width = width};
}

Batch ShardComputer::fill_images(Lane& lane, const DataSet& set, std::size_t count,
                                 const Sample& sample) const {
  const std::span<std::uint8_t> pixels(lane.pixels);
  const std::span<float> masks(lane.masks);
  for (std::size_t item = 0; item < count; ++item) {
    const std::size_t index = sample(item);
    lane.labels[item] = set.read(index, pixels.subspan(item * sample_pixels_, sample_pixels_));
    if (mask_floats_ > 0) set.read_mask(index, masks.subspan(item * mask_floats_, mask_floats_));
  }
  const std::span<const std::int32_t> labels(lane.labels);
  return {.labels = labels.first(mask_floats_ > 0 ? 0 : count),
          .masks = masks.first(count * mask_floats_),
          .pixels = pixels.first(count * sample_pixels_),
          .tables = set.tables()};
}

void ShardComputer::train(const DataSet& set, const StepInputs& inputs, ShardRun run,
                          Reducer& reducer) {
  const auto batch = static_cast<std::size_t>(inputs.order.batch_of(inputs.step));
  std::atomic<int> next{run.first};
  on_lanes([&](Lane& lane) {
    for (int shard = next++; shard < run.first + run.count; shard = next++) {
      const Batch samples = fill(lane, set, batch, [&](std::size_t item) {
        return inputs.order.sample(inputs.step, shard, static_cast<int>(item));
      });
      lane.executor.compute(
          samples, inputs.weights,
          {.seed = settings_.seed,
           .state = shard == 0 ? inputs.first_shard : inputs.others,
           .shard = shard,
           .shards = settings_.shards},
          counters_of(lane), [&reducer, shard] { return reducer.begin_shard(shard); },
          [&reducer, shard](std::size_t end) { reducer.final_up_to(shard, end); });
    }
  });
}

void ShardComputer::evaluate(const DataSet& set, int rank, int world_size, const Weights& weights,
                             const std::function<void(double share)>& on_progress,
                             std::span<ClassCount> classes) {
  const auto batch = static_cast<std::size_t>(settings_.executor.batch);
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t batches = (set.size() + batch - 1) / batch;
  const auto mine = static_cast<std::size_t>(rank);
  const std::size_t batches_mine = batches > mine ? (batches - mine + ranks - 1) / ranks : 0;
  std::atomic<std::size_t> next{mine};
  std::atomic<std::size_t> done{0};
  std::mutex counting;  // guards `classes`
  on_lanes([&](Lane& lane) {
    std::vector<float> logits(classes.size() * batch);
    for (std::size_t turn = next.fetch_add(ranks); turn < batches; turn = next.fetch_add(ranks)) {
      const std::size_t first = turn * batch;
      const Batch samples = fill(lane, set, std::min(batch, set.size() - first),
                                 [&](std::size_t item) { return first + item; });
      lane.executor.evaluate(samples, weights, static_cast<int>(turn));
      lane.executor.loss(counters_of(lane));
      if (!classes.empty()) {
        const auto values = std::span(logits).first(samples.labels.size() * classes.size());
        lane.executor.copy_logits(values);
        const std::lock_guard lock(counting);
        count_classes(samples.labels, values, classes);
      }
      const std::size_t so_far = ++done;
      if (&lane == lane_state_.front().get())
        on_progress(static_cast<double>(so_far) / static_cast<double>(batches_mine));
    }
  });
}

Counters ShardComputer::take_counters() {
  Counters total;
  for (const auto& lane : lane_state_) {
    Counters one;
    device_.copy_out(&counters_of(*lane), std::as_writable_bytes(std::span(&one, 1)));
    total += one;
    clear_counters(*lane);
  }
  return total;
}

/// Not to zeros, which would be a first sample that is not finite.
void ShardComputer::clear_counters(Lane& lane) {
  const Counters none;
  device_.copy_in(std::as_bytes(std::span(&none, 1)), &counters_of(lane));
}

}  // namespace ddprun::trainer
