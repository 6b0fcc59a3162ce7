#include "trainer/compute/batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "trainer/compute/inputs.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

void check_labels(const Graph& graph, std::span<const std::int32_t> labels) {
  for (const std::int32_t label : labels) {
    if (label < 0 || label >= graph.classes()) {
      throw DataError("label " + std::to_string(label) +
                      " in the data, but the model has classes 0 to " +
                      std::to_string(graph.classes() - 1) + "; check the label file");
    }
  }
}

void check_texts(const Graph& graph, const Batch& batch) {
  const int positions = graph.text().positions;
  if (positions == 0) return;
  const std::size_t tokens =
      batch.tokens.size() + batch.stored_tokens.bytes() / sizeof(std::int32_t);
  if (batch.width < 1 || batch.width > positions || batch.width % kLengthUnit != 0 ||
      tokens != batch.lengths.size() * static_cast<std::size_t>(batch.width))
    throw std::logic_error("texts of another width than the batch's");
  std::span<const std::int32_t> row = batch.tokens;
  for (const std::int32_t length : batch.lengths) {
    if (length < 1 || length > batch.width)
      throw std::logic_error("a length beyond the width of the batch");
    if (batch.tokens.empty()) continue;
    for (const std::int32_t token : row.first(static_cast<std::size_t>(length)))
      if (token < 0 || token >= graph.text().vocabulary)
        throw DataError("token " + std::to_string(token) +
                        " in the data, but the model has tokens 0 to " +
                        std::to_string(graph.text().vocabulary - 1));
    row = row.subspan(static_cast<std::size_t>(batch.width));
  }
}

/// The device follows what these say.
void check_rows(const StoredRows& stored) {
  const std::size_t bytes = stored.set.size();
  for (const StoredRow& row : stored.rows)
    if (row.begin > bytes || row.size > bytes - row.begin || row.size > stored.row_bytes)
      throw std::logic_error("a sample beyond its set");
}

/// The size of one sample in batch.pixels.
std::size_t stored_size(const Graph& graph, const Batch& batch) {
  const ActivationShape& sample = graph.layers().front().output;
  if (batch.windows.empty()) return sample.count();
  const WindowSides& sides = batch.sides;
  if (sides.from_height < 1 || sides.from_width < 1 || sides.height != sample.height ||
      sides.width != sample.width)
    throw std::logic_error("windows of other sides than the network's images");
  return static_cast<std::size_t>(sides.from_height) * static_cast<std::size_t>(sides.from_width) *
         static_cast<std::size_t>(sample.channels);
}

/// As bytes they are of the pictures' size, and have their windows.
bool fit_masks(const Graph& graph, const Batch& batch, std::size_t count) {
  const std::size_t bytes = batch.mask_images().bytes();
  if (graph.target() != Target::mask) return batch.masks.empty() && bytes == 0;
  if (bytes == 0) return batch.masks.size() == count * graph.logits().count();
  const ActivationShape& sample = graph.layers().front().output;
  const auto channels = static_cast<std::size_t>(sample.channels);
  return batch.masks.empty() && graph.logits().count() * channels == sample.count() &&
         bytes * channels == count * stored_size(graph, batch);
}

}  // namespace

std::size_t target_bytes(const Graph& graph) {
  return graph.target() == Target::mask ? graph.logits().count() * sizeof(float)
                                        : sizeof(std::int32_t);
}

void add_targets(const Graph& graph, const Batch& batch, const DeviceMemory& room, Pass& pass,
                 Inputs& inputs) {
  const auto add = [&](std::span<const std::byte> from) {
    inputs.values.push_back({from, room.as<std::byte>().first(from.size())});
  };
  if (graph.target() == Target::mask) {
    pass.masks = room.as<float>().data();
    const InputImages masks = batch.mask_images();
    if (masks.bytes() == 0) return add(std::as_bytes(batch.masks));
    const std::size_t floats = static_cast<std::size_t>(pass.count) * graph.logits().count();
    inputs.masks = masks;
    inputs.masks.to = std::as_writable_bytes(room.as<float>().first(floats));
  } else {
    pass.labels = room.as<std::int32_t>().data();
    add(std::as_bytes(batch.labels));
  }
}

std::size_t sample_count(const Graph& graph, const Batch& batch) {
  if (graph.text().positions > 0) return batch.lengths.size();
  if (!batch.windows.empty()) return batch.windows.size();
  const std::size_t pixels = batch.pixel_images().bytes();
  return std::max(batch.images.size(), pixels) / graph.layers().front().output.count();
}

void check_batch(const Graph& graph, const Batch& batch, int most) {
  const std::size_t count = sample_count(graph, batch);
  const bool has_masks = graph.target() == Target::mask;
  const ActivationShape& sample = graph.layers().front().output;
  const std::size_t pixels = batch.pixel_images().bytes();
  const std::size_t channels = pixels == 0 ? 0 : static_cast<std::size_t>(sample.channels);
  if (count > static_cast<std::size_t>(most) ||
      batch.images.size() + pixels != count * stored_size(graph, batch) ||
      batch.tables.size() != channels * kByteValues ||
      batch.labels.size() != (has_masks ? 0 : count) || !fit_masks(graph, batch, count)) {
    throw std::logic_error("batch of another size than the executor's");
  }
  for (const StoredRows* stored : {&batch.stored_pixels, &batch.stored_masks, &batch.stored_tokens})
    check_rows(*stored);
  check_labels(graph, batch.labels);
  check_texts(graph, batch);
  for (const float value : batch.masks) {
    if (!(value >= 0 && value <= 1))
      throw DataError("a mask in the data has a value beyond 0 and 1");
  }
}

PassInputs::PassInputs(const Graph& graph, Device& device, int batch, Storage storage)
    : graph_(graph), device_(device), batch_(static_cast<std::size_t>(batch)), storage_(storage) {}

std::size_t PassInputs::targets_bytes() const { return batch_ * target_bytes(graph_); }

/// Token ids and lengths.
std::size_t PassInputs::text_bytes() const {
  const auto positions = static_cast<std::size_t>(graph_.text().positions);
  return positions == 0 ? 0 : batch_ * (positions + 1) * sizeof(std::int32_t);
}

std::size_t PassInputs::bytes_needed() const {
  return targets_bytes() + text_bytes() + sizeof(std::int32_t);
}

Inputs PassInputs::fill(const Batch& batch, int shard, std::span<std::byte> images, Pass& pass) {
  if (targets_.bytes() == 0) targets_ = device_.allocate(targets_bytes());
  if (texts_.bytes() == 0) texts_ = device_.allocate(text_bytes());
  if (shard_.bytes() == 0) shard_ = device_.allocate(sizeof(std::int32_t));
  number_ = shard;
  pass.shard = shard_.as<std::int32_t>().data();
  pass.count = static_cast<int>(sample_count(graph_, batch));
  Inputs inputs{.values = {{std::as_bytes(std::span(&number_, 1)), shard_.as<std::byte>()}},
                .images = {}};
  add_targets(graph_, batch, targets_, pass, inputs);
  if (graph_.text().positions > 0) {
    add_texts(batch, pass, inputs);
  } else if (const InputImages pixels = batch.pixel_images(); pixels.bytes() > 0) {
    inputs.images = pixels;
    inputs.images.storage = storage_;
    inputs.images.to = images;
  } else {
    device_.copy_in(storage_, batch.images, images.data());
    device_.clear(images.subspan(batch.images.size() * bytes_of(storage_)));
  }
  return inputs;
}

void PassInputs::add_texts(const Batch& batch, Pass& pass, Inputs& inputs) {
  const std::span<std::int32_t> lengths = texts_.as<std::int32_t>().first(batch_);
  const std::span<std::int32_t> tokens = texts_.as<std::int32_t>().subspan(
      batch_, batch.lengths.size() * static_cast<std::size_t>(batch.width));
  inputs.values.push_back({std::as_bytes(batch.lengths), std::as_writable_bytes(lengths)});
  inputs.values.push_back(
      {std::as_bytes(batch.tokens), std::as_writable_bytes(tokens), batch.stored_tokens});
  pass.tokens = tokens.data();
  pass.lengths = lengths.data();
}

}  // namespace ddprun::trainer
