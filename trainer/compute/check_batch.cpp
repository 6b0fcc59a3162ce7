#include "trainer/compute/check_batch.hpp"

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
  if (batch.width < 1 || batch.width > positions || batch.width % kLengthUnit != 0 ||
      batch.tokens.size() != batch.lengths.size() * static_cast<std::size_t>(batch.width))
    throw std::logic_error("texts of another width than the batch's");
  std::span<const std::int32_t> row = batch.tokens;
  for (const std::int32_t length : batch.lengths) {
    if (length < 1 || length > batch.width)
      throw std::logic_error("a length beyond the width of the batch");
    for (const std::int32_t token : row.first(static_cast<std::size_t>(length)))
      if (token < 0 || token >= graph.text().vocabulary)
        throw DataError("token " + std::to_string(token) +
                        " in the data, but the model has tokens 0 to " +
                        std::to_string(graph.text().vocabulary - 1));
    row = row.subspan(static_cast<std::size_t>(batch.width));
  }
}

/// Of one sample in batch.pixels.
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

}  // namespace

std::size_t sample_count(const Graph& graph, const Batch& batch) {
  if (graph.text().positions > 0) return batch.lengths.size();
  if (!batch.windows.empty()) return batch.windows.size();
  return std::max(batch.images.size(), batch.pixels.size()) / graph.layers().front().output.count();
}

void check_batch(const Graph& graph, const Batch& batch, int most) {
  const std::size_t count = sample_count(graph, batch);
  const bool has_masks = graph.target() == Target::mask;
  const ActivationShape& sample = graph.layers().front().output;
  const std::size_t channels = batch.pixels.empty() ? 0 : static_cast<std::size_t>(sample.channels);
  if (count > static_cast<std::size_t>(most) ||
      batch.images.size() + batch.pixels.size() != count * stored_size(graph, batch) ||
      batch.tables.size() != channels * kByteValues ||
      batch.labels.size() != (has_masks ? 0 : count) ||
      batch.masks.size() != (has_masks ? count * graph.logits().count() : 0)) {
    throw std::logic_error("batch of another size than the executor's");
  }
  check_labels(graph, batch.labels);
  check_texts(graph, batch);
  for (const float value : batch.masks) {
    if (!(value >= 0 && value <= 1))
      throw DataError("a mask in the data has a value beyond 0 and 1");
  }
}

}  // namespace ddprun::trainer
