// The samples of one pass: what a graph asks of them, and how their labels or masks get to the
// loss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rounded_up.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/compute/inputs.hpp"
#include "trainer/compute/operation.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// Not owned, and in host memory unless it is stored on the device: images as pixels or as floats,
/// or texts as token ids with lengths, as the graph begins; of labels and masks, as bytes or as
/// floats, the one that its target() names.
struct Batch {
  std::span<const float> images = {};          ///< samples x height x width x channels
  std::span<const std::int32_t> labels = {};   ///< the class of each sample
  std::span<const float> masks = {};           ///< samples x height x width, 0 to 1
  std::span<const std::int32_t> tokens = {};   ///< samples x width; behind a length: anything
  std::span<const std::int32_t> lengths = {};  ///< tokens of each sample, 1 to width
  int width = 0;  ///< of texts: what padded_length() makes of the longest
  std::span<const std::uint8_t> pixels = {};      ///< of the size of `images`: see InputImages
  std::span<const float> tables = {};             ///< of pixels: channels x kByteValues
  std::span<const std::uint8_t> mask_bytes = {};  ///< of the size of one channel of `pixels`
  std::span<const ImageWindow> windows = {};  ///< of pixels, which then have the size of `sides`
  WindowSides sides = {};                     ///< of windows
  StoredRows stored_pixels = {};              ///< instead of `pixels`
  StoredRows stored_masks = {};               ///< instead of `mask_bytes`
  StoredRows stored_tokens = {};              ///< instead of `tokens`

  // Pixels, and masks as bytes, without where they go.
  [[nodiscard]] InputImages pixel_images() const {
    return {.pixels = pixels,
            .tables = tables,
            .windows = windows,
            .sides = sides,
            .stored = stored_pixels};
  }
  [[nodiscard]] InputImages mask_images() const {
    return {.pixels = mask_bytes,
            .tables = mask_tables(),
            .windows = windows,
            .sides = sides,
            .stored = stored_masks};
  }
};

/// The width of a batch with a longest sample of `tokens` tokens, at most `positions`: rounded up
/// to kLengthUnit.
inline int padded_length(int tokens, int positions) {
  return std::min(rounded_up(tokens, kLengthUnit), positions);
}

/// Bytes of the device's memory for the targets of one sample.
std::size_t target_bytes(const Graph& graph);

/// Adds those of `batch`, which has pass.count samples, to what a pass reads, and points the pass
/// to them. `room`: target_bytes() for each sample.
void add_targets(const Graph& graph, const Batch& batch, const DeviceMemory& room, Pass& pass,
                 Inputs& inputs);

std::size_t sample_count(const Graph& graph, const Batch& batch);

/// Throws DataError if a label is not one of the model's classes, a mask has values beyond 0 and 1,
/// or a token is not in the vocabulary; tokens that are stored on the device are not looked at.
/// Spans that do not fit each other, a stored sample beyond its set, or more than `most` samples,
/// are a mistake of the caller: std::logic_error.
void check_batch(const Graph& graph, const Batch& batch, int most);

/// What the passes of an executor are fed, in the device's memory: labels or masks, token ids and
/// lengths, the shard's number. Images go where the caller has room for them.
class PassInputs {
 public:
  /// For at most `batch` samples. Graph and device outlive it.
  PassInputs(const Graph& graph, Device& device, int batch, Storage storage);

  /// Bytes of the device's memory that it takes from the first pass on.
  [[nodiscard]] std::size_t bytes_needed() const;
  /// Points `pass` to the memory, and gives what the device is to be fed of `batch`, until the next
  /// call. `images`: room for those of all samples of the pass. Images that are floats are copied
  /// there at once, and what is missing is cleared.
  Inputs fill(const Batch& batch, int shard, std::span<std::byte> images, Pass& pass);

 private:
  [[nodiscard]] std::size_t targets_bytes() const;
  [[nodiscard]] std::size_t text_bytes() const;
  void add_texts(const Batch& batch, Pass& pass, Inputs& inputs);

  const Graph& graph_;
  Device& device_;
  std::size_t batch_;
  Storage storage_;
  DeviceMemory targets_;  // labels or masks
  DeviceMemory texts_;    // token ids, then lengths
  DeviceMemory shard_;    // its number
  std::int32_t number_ = 0;
};

}  // namespace ddprun::trainer
