#include "trainer/run/shard_computer.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace ddprun::trainer {
namespace {

/// Of a picture as it is stored.
std::size_t pixels_in(const WindowSides& sides) {
  return static_cast<std::size_t>(sides.from_height) * static_cast<std::size_t>(sides.from_width);
}

}  // namespace

ShardComputer::ShardComputer(const Graph& graph, Device& device, Lanes& lanes,
                             const Preparation& preparation, Settings settings)
    : device_(device),
      lanes_(lanes),
      preparation_(preparation),
      settings_(std::move(settings)),
      stored_pixels_(pixels_in(preparation.sides()) *
                     static_cast<std::size_t>(preparation.shape().channels)),
      stored_mask_(graph.target() == Target::mask ? pixels_in(preparation.sides()) : 0),
      positions_(graph.text().positions) {
  const auto positions = static_cast<std::size_t>(positions_);
  const auto batch = static_cast<std::size_t>(settings_.executor.batch);
  const bool has_windows = preparation.has_windows();
  for (int lane = 0; lane < lanes.count(); ++lane) {
    lane_state_.push_back(std::unique_ptr<Lane>(
        new Lane{.executor = GraphExecutor(graph, device, settings_.executor),
                 .counters = device.allocate(sizeof(Counters)),
                 .pixels = std::vector<std::uint8_t>(batch * stored_pixels_),
                 .labels = std::vector<std::int32_t>(batch),
                 .masks = std::vector<std::uint8_t>(batch * stored_mask_),
                 .windows = std::vector<ImageWindow>(has_windows ? batch : 0),
                 .tokens = std::vector<std::int32_t>(batch * positions),
                 .lengths = std::vector<std::int32_t>(positions > 0 ? batch : 0),
                 .rows = std::vector<StoredRow>(batch),
                 .mask_rows = std::vector<StoredRow>(batch)}));
    clear_counters(*lane_state_.back());
  }
}

std::uint64_t ShardComputer::host_bytes(const Graph& graph, int batch, ImageShape stored) {
  const std::size_t mask = graph.target() == Target::mask ? mask_size(stored) : 0;
  const auto positions = static_cast<std::size_t>(graph.text().positions);
  const std::size_t words = 1 + (positions > 0 ? positions + 1 : 0);
  const std::size_t window = positions > 0 ? 0 : sizeof(ImageWindow);
  return static_cast<std::uint64_t>(batch) *
         (sample_size(stored) + mask + words * sizeof(std::int32_t) + window);
}

void ShardComputer::on_lanes(const std::function<void(Lane&)>& work) {
  const auto one = [&](int lane) { work(*lane_state_[static_cast<std::size_t>(lane)]); };
  lanes_.run(std::ref(one));
}

Batch ShardComputer::fill(Lane& lane, const Fill& from) const {
  return positions_ > 0 ? fill_texts(lane, from) : fill_images(lane, from);
}

Batch ShardComputer::fill_texts(Lane& lane, const Fill& from) const {
  const DataSet& set = from.samples.set();
  int longest = 1;
  for (std::size_t item = 0; item < from.count; ++item) {
    lane.lengths[item] = set.length(from.sample(item));
    longest = std::max(longest, lane.lengths[item]);
  }
  Batch batch{.labels = std::span(lane.labels).first(from.count),
              .lengths = std::span(lane.lengths).first(from.count),
              .width = padded_length(longest, positions_)};
  if (const StoredSet* there = stored(set)) {
    find_texts(lane, from, *there, batch);
  } else {
    read_texts(lane, from, batch);
  }
  return batch;
}

void ShardComputer::read_texts(Lane& lane, const Fill& from, Batch& batch) const {
  const auto row = static_cast<std::size_t>(batch.width);
  const std::span<std::int32_t> tokens = std::span(lane.tokens).first(from.count * row);
  std::fill(tokens.begin(), tokens.end(), 0);
  for (std::size_t item = 0; item < from.count; ++item) {
    const auto length = static_cast<std::size_t>(lane.lengths[item]);
    lane.labels[item] =
        from.samples.set().read_tokens(from.sample(item), tokens.subspan(item * row, length));
  }
  batch.tokens = tokens;
}

void ShardComputer::find_texts(Lane& lane, const Fill& from, const StoredSet& stored,
                               Batch& batch) const {
  for (std::size_t item = 0; item < from.count; ++item) {
    const std::size_t index = from.sample(item);
    lane.labels[item] = stored.set().label(index);
    lane.rows[item] = stored.token_row(index);
  }
  batch.stored_tokens = stored.tokens(std::span(lane.rows).first(from.count), batch.width);
}

Batch ShardComputer::fill_images(Lane& lane, const Fill& from) const {
  const bool has_windows = preparation_.has_windows();
  Batch batch{.labels = std::span(lane.labels).first(stored_mask_ > 0 ? 0 : from.count),
              .tables = preparation_.tables(),
              .windows = std::span(lane.windows).first(has_windows ? from.count : 0),
              .sides = preparation_.sides()};
  if (has_windows)
    for (std::size_t item = 0; item < from.count; ++item)
      lane.windows[item] = from.window(from.sample(item));
  if (const StoredSet* there = stored(from.samples.set())) {
    find_images(lane, from, *there, batch);
  } else {
    read_images(lane, from, batch);
  }
  return batch;
}

void ShardComputer::read_images(Lane& lane, const Fill& from, Batch& batch) const {
  const std::span<std::uint8_t> pixels(lane.pixels);
  const std::span<std::uint8_t> masks(lane.masks);
  for (std::size_t item = 0; item < from.count; ++item)
    lane.labels[item] = from.samples.read(from.first_place + item, from.sample(item),
                                          pixels.subspan(item * stored_pixels_, stored_pixels_),
                                          masks.subspan(item * stored_mask_, stored_mask_));
  batch.pixels = pixels.first(from.count * stored_pixels_);
  batch.mask_bytes = masks.first(from.count * stored_mask_);
}

void ShardComputer::find_images(Lane& lane, const Fill& from, const StoredSet& stored,
                                Batch& batch) const {
  for (std::size_t item = 0; item < from.count; ++item) {
    const std::size_t index = from.sample(item);
    lane.labels[item] = stored.set().label(index);
    lane.rows[item] = stored.pixel_row(index);
    lane.mask_rows[item] = stored.mask_row(index);
  }
  batch.stored_pixels = stored.pixels(std::span(lane.rows).first(from.count));
  if (stored_mask_ > 0)
    batch.stored_masks = stored.masks(std::span(lane.mask_rows).first(from.count));
}

void ShardComputer::train(SampleReader& samples, const StepInputs& inputs, ShardRun run,
                          Reducer& reducer) {
  const auto batch = static_cast<std::size_t>(inputs.order.batch_of(inputs.step));
  std::atomic<int> next{run.first};
  on_lanes([&](Lane& lane) {
    for (int shard = next++; shard < run.first + run.count; shard = next++) {
      const auto sample = [&](std::size_t item) {
        return inputs.order.sample(inputs.step, shard, static_cast<int>(item));
      };
      const auto window = [&](std::size_t index) {
        return preparation_.window(settings_.seed, inputs.epoch, static_cast<std::uint32_t>(index));
      };
      const std::size_t first =
          inputs.first_place + static_cast<std::size_t>(shard - run.first) * batch;
      const Batch filled = fill(lane, {samples, batch, first, sample, window});
      lane.executor.compute(
          filled, inputs.weights,
          {.seed = settings_.seed,
           .state = shard == 0 ? inputs.first_shard : inputs.others,
           .shard = shard,
           .shards = settings_.shards},
          counters_of(lane), [&reducer, shard] { return reducer.begin_shard(shard); },
          [&reducer, shard](std::size_t end) { reducer.final_up_to(shard, end); });
    }
  });
}

void ShardComputer::evaluate(SampleReader& samples, int rank, int world_size,
                             const Weights& weights,
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
  on_lanes([&](Lane& lane) {
    std::vector<float> logits(classes.size() * batch);
    for (std::size_t turn = next.fetch_add(ranks); turn < batches; turn = next.fetch_add(ranks)) {
      const std::size_t first = turn * batch;
      const Batch filled =
          fill(lane, {samples, std::min(batch, size - first), (turn - mine) / ranks * batch,
                      [&](std::size_t item) { return first + item; },
                      [&](std::size_t) { return preparation_.held_out_window(); }});
      lane.executor.evaluate(filled, weights, static_cast<int>(turn));
      lane.executor.loss(counters_of(lane));
      if (!classes.empty()) {
        const auto values = std::span(logits).first(filled.labels.size() * classes.size());
        lane.executor.copy_logits(values);
        const std::lock_guard lock(counting);
        count_classes(filled.labels, values, classes);
      }
      const std::size_t so_far = ++done;
      if (&lane == lane_state_.front().get() &&
          !on_progress(static_cast<double>(so_far) / static_cast<double>(batches_mine)))
        next = batches;
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
