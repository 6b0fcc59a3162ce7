// What the training loop sees of a data set: images with labels or masks, or texts with labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// The label of an image, as sets hold it.
using ImageLabel = std::uint16_t;
inline constexpr std::uint64_t kLabelBytes = sizeof(ImageLabel);
inline constexpr std::size_t kImageClassesMax = std::size_t{1} << 16;

/// One value per channel, of pixels scaled to 0..1. A network sees (pixel - mean) / deviation.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// A fixed list of samples: images, or texts as token ids. Reading one is safe from several threads
/// at once. Where the set is in memory, it allocates nothing.
class DataSet {
 public:
  virtual ~DataSet() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// What each sample comes with.
  [[nodiscard]] virtual Target target() const = 0;
  /// Of the labels; 1 of masks.
  [[nodiscard]] virtual int classes() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// Hash of all samples' bytes and targets (base/hash_bytes.hpp), and of nothing else: the same
  /// set has it in any folder. Known since the set was loaded.
  [[nodiscard]] virtual std::uint64_t content_hash() const = 0;
  /// That the set takes in memory.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  /// False: an image is decoded or resized whenever it is read; a SampleReader does that ahead.
  [[nodiscard]] virtual bool is_in_memory() const { return true; }
  /// The most that reading one sample takes beside the set and the sample, where the set is not in
  /// memory.
  [[nodiscard]] virtual std::uint64_t reading_bytes() const { return 0; }

  /// Of sample `index` (below size()), 0 to classes() - 1; of masks 0.
  [[nodiscard]] virtual std::int32_t label(std::size_t index) const = 0;

  // Of images; the others are never asked to read one.

  /// Of texts: zeros.
  [[nodiscard]] virtual ImageShape shape() const { return {0, 0, 0}; }
  /// The set's own; a run may be asked for another one. Of texts: empty.
  [[nodiscard]] virtual const Normalization& normalization() const;
  /// Writes sample `index` as height x width x channels bytes, and in a set of masks its mask as
  /// height x width bytes, 255 where a pixel belongs to it. Both have exactly that many bytes; of
  /// labels `mask` is empty. Throws DataError only where the set is not in memory.
  virtual void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                          std::span<std::uint8_t> mask) const;
  /// Both.
  std::int32_t read(std::size_t index, std::span<std::uint8_t> pixels,
                    std::span<std::uint8_t> mask = {}) const {
    read_image(index, pixels, mask);
    return label(index);
  }
  /// Of all masks together, the pixels that belong to them (is_in_mask()); other sets: 0.
  [[nodiscard]] virtual std::uint64_t mask_pixels() const { return 0; }

  // Of texts; the others are never asked to read one.

  /// Positions: the tokens of the longest. Of images: zeros.
  [[nodiscard]] virtual TextShape text() const { return {}; }
  [[nodiscard]] bool has_texts() const { return text().vocabulary > 0; }
  /// Tokens of sample `index`.
  [[nodiscard]] virtual int length(std::size_t index) const;
  /// Writes them, `tokens` having exactly their number; gives the label.
  virtual std::int32_t read_tokens(std::size_t index, std::span<std::int32_t> tokens) const;
};

/// Pixels, of all channels, in one sample of `shape`.
constexpr std::size_t sample_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width) *
         static_cast<std::size_t>(shape.channels);
}

/// Pixels of its mask.
constexpr std::size_t mask_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

inline constexpr int kShapeSideMax = 512;

/// Sides are at most kShapeSideMax, channels 1 or 3. Throws DataError.
ImageShape parse_image_shape(const std::string& text);

}  // namespace ddprun::trainer
