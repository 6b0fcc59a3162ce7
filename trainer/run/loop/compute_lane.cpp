#include "trainer/run/loop/compute_lane.hpp"

#include <algorithm>

namespace ddprun::trainer {
namespace {

/// Pixels of a picture as it is stored.
std::size_t pixels_in(const WindowSides& sides) {
  return static_cast<std::size_t>(sides.from_height) * static_cast<std::size_t>(sides.from_width);
}

}  // namespace

ComputeLane::ComputeLane(const Graph& graph, Device& device, const Preparation& preparation,
                         const Settings& settings)
    : device_(device),
      preparation_(preparation),
      seed_(settings.seed),
      stored_pixels_(pixels_in(preparation.sides()) *
                     static_cast<std::size_t>(preparation.shape().channels)),
      stored_mask_(graph.target() == Target::mask ? pixels_in(preparation.sides()) : 0),
      positions_(graph.text().positions),
      stored_(settings.stored),
      executor_(graph, device, settings.executor),
      counters_(device.allocate(sizeof(Counters))) {
  const auto positions = static_cast<std::size_t>(positions_);
  const auto batch = static_cast<std::size_t>(settings.executor.batch);
  pixels_.resize(batch * stored_pixels_);
  labels_.resize(batch);
  masks_.resize(batch * stored_mask_);
  windows_.resize(preparation.has_windows() ? batch : 0);
  tokens_.resize(batch * positions);
  lengths_.resize(positions > 0 ? batch : 0);
  rows_.resize(batch);
  mask_rows_.resize(batch);
  clear_counters();
}

Batch ComputeLane::shard(SampleReader& samples, const StepInputs& inputs, int shard,
                         std::size_t first_place) {
  return fill({samples, inputs.batch(), first_place,
               [&](std::size_t item) {
                 return inputs.order.sample(inputs.step, shard, static_cast<int>(item));
               },
               [&](std::size_t index) {
                 return preparation_.window(seed_, inputs.epoch, static_cast<std::uint32_t>(index));
               }});
}

Batch ComputeLane::held_out(SampleReader& samples, std::size_t first, std::size_t count,
                            std::size_t first_place) {
  return fill({samples, count, first_place, [&](std::size_t item) { return first + item; },
               [&](std::size_t) { return preparation_.held_out_window(); }});
}

Batch ComputeLane::fill(const Fill& from) {
  return positions_ > 0 ? fill_texts(from) : fill_images(from);
}

Batch ComputeLane::fill_texts(const Fill& from) {
  const TextSet& set = *from.samples.set().texts();
  int longest = 1;
  for (std::size_t item = 0; item < from.count; ++item) {
    lengths_[item] = set.length(from.sample(item));
    longest = std::max(longest, lengths_[item]);
  }
  Batch batch{.labels = std::span(labels_).first(from.count),
              .lengths = std::span(lengths_).first(from.count),
              .width = padded_length(longest, positions_)};
  if (const StoredSet* there = stored(set)) {
    find_texts(from, *there, batch);
  } else {
    read_texts(set, from, batch);
  }
  return batch;
}

void ComputeLane::read_texts(const TextSet& set, const Fill& from, Batch& batch) {
  const auto row = static_cast<std::size_t>(batch.width);
  const std::span<std::int32_t> tokens = std::span(tokens_).first(from.count * row);
  std::fill(tokens.begin(), tokens.end(), 0);
  for (std::size_t item = 0; item < from.count; ++item) {
    const auto length = static_cast<std::size_t>(lengths_[item]);
    labels_[item] = set.read_tokens(from.sample(item), tokens.subspan(item * row, length));
  }
  batch.tokens = tokens;
}

void ComputeLane::find_texts(const Fill& from, const StoredSet& stored, Batch& batch) {
  for (std::size_t item = 0; item < from.count; ++item) {
    const std::size_t index = from.sample(item);
    labels_[item] = stored.set().label(index);
    rows_[item] = stored.token_row(index);
  }
  batch.stored_tokens = stored.tokens(std::span(rows_).first(from.count), batch.width);
}

Batch ComputeLane::fill_images(const Fill& from) {
  const bool has_windows = preparation_.has_windows();
  Batch batch{.labels = std::span(labels_).first(stored_mask_ > 0 ? 0 : from.count),
              .tables = preparation_.tables(),
              .windows = std::span(windows_).first(has_windows ? from.count : 0),
              .sides = preparation_.sides()};
  if (has_windows)
    for (std::size_t item = 0; item < from.count; ++item)
      windows_[item] = from.window(from.sample(item));
  if (const StoredSet* there = stored(from.samples.set())) {
    find_images(from, *there, batch);
  } else {
    read_images(from, batch);
  }
  return batch;
}

void ComputeLane::read_images(const Fill& from, Batch& batch) {
  const std::span<std::uint8_t> pixels(pixels_);
  const std::span<std::uint8_t> masks(masks_);
  for (std::size_t item = 0; item < from.count; ++item)
    labels_[item] = from.samples.read(from.first_place + item, from.sample(item),
                                      pixels.subspan(item * stored_pixels_, stored_pixels_),
                                      masks.subspan(item * stored_mask_, stored_mask_));
  batch.pixels = pixels.first(from.count * stored_pixels_);
  batch.mask_bytes = masks.first(from.count * stored_mask_);
}

void ComputeLane::find_images(const Fill& from, const StoredSet& stored, Batch& batch) {
  for (std::size_t item = 0; item < from.count; ++item) {
    const std::size_t index = from.sample(item);
    labels_[item] = stored.set().label(index);
    rows_[item] = stored.pixel_row(index);
    mask_rows_[item] = stored.mask_row(index);
  }
  batch.stored_pixels = stored.pixels(std::span(rows_).first(from.count));
  if (stored_mask_ > 0) batch.stored_masks = stored.masks(std::span(mask_rows_).first(from.count));
}

Counters ComputeLane::take_counters() {
  Counters one;
  device_.copy_out(&counters(), std::as_writable_bytes(std::span(&one, 1)));
  clear_counters();
  return one;
}

/// Not to zeros, which would be a first sample that is not finite.
void ComputeLane::clear_counters() {
  const Counters none;
  device_.copy_in(std::as_bytes(std::span(&none, 1)), &counters());
}

}  // namespace ddprun::trainer
