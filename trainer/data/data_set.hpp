// What the training loop sees of a data set: images with labels or masks, or texts with labels
// (text_set.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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

class ImageSet;
class TextSet;

/// What sets of both kinds have.
struct SetFacts {
  std::string name = {};
  int classes = 1;  ///< 1 where the targets are masks
  std::size_t size = 0;
  /// Hash of all samples' bytes and targets (base/hash_bytes.hpp), and of nothing else: the same
  /// set has it in any folder.
  std::uint64_t content_hash = 0;
  std::uint64_t bytes = 0;  ///< of memory that the set takes
  /// False: an image is decoded or resized whenever it is read; a SampleReader does that ahead.
  bool is_in_memory = true;
};

/// A fixed list of samples: an ImageSet or a TextSet, in which they are read. That is safe from
/// several threads at once.
class DataSet {
 public:
  virtual ~DataSet() = default;
  [[nodiscard]] const std::string& name() const { return facts_.name; }
  [[nodiscard]] int classes() const { return facts_.classes; }
  [[nodiscard]] std::size_t size() const { return facts_.size; }
  [[nodiscard]] std::uint64_t content_hash() const { return facts_.content_hash; }
  [[nodiscard]] std::uint64_t bytes() const { return facts_.bytes; }
  [[nodiscard]] bool is_in_memory() const { return facts_.is_in_memory; }
  /// The label of sample `index` (below size()), 0 to classes() - 1; 0 where the targets are masks.
  [[nodiscard]] virtual std::int32_t label(std::size_t index) const = 0;

  // One of the two is not null.
  [[nodiscard]] virtual const ImageSet* images() const { return nullptr; }
  [[nodiscard]] virtual const TextSet* texts() const { return nullptr; }

 protected:
  explicit DataSet(SetFacts facts) : facts_(std::move(facts)) {}

 private:
  SetFacts facts_;
};

/// What sets of images have beside SetFacts.
struct ImageFacts {
  ImageShape shape = {};
  Target target = Target::label;     ///< what each image comes with
  Normalization normalization = {};  ///< the set's own; a run may be asked for another one
  std::uint64_t mask_pixels = 0;  ///< pixels that belong to masks (is_in_mask()), of all together
  /// The most that reading one sample takes beside the set and the sample, where the set is not in
  /// memory.
  std::uint64_t reading_bytes = 0;
};

/// Images with labels or masks. Where the set is in memory, reading one allocates nothing.
class ImageSet : public DataSet {
 public:
  [[nodiscard]] ImageShape shape() const { return facts_.shape; }
  [[nodiscard]] Target target() const { return facts_.target; }
  [[nodiscard]] const Normalization& normalization() const { return facts_.normalization; }
  [[nodiscard]] std::uint64_t mask_pixels() const { return facts_.mask_pixels; }
  [[nodiscard]] std::uint64_t reading_bytes() const { return facts_.reading_bytes; }
  /// Writes sample `index` as height x width x channels bytes, and in a set of masks its mask as
  /// height x width bytes, 255 where a pixel belongs to it. Both have exactly that many bytes;
  /// where the targets are labels, `mask` is empty. Throws DataError only where the set is not in
  /// memory.
  virtual void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                          std::span<std::uint8_t> mask) const = 0;
  /// read_image() and label().
  std::int32_t read(std::size_t index, std::span<std::uint8_t> pixels,
                    std::span<std::uint8_t> mask = {}) const {
    read_image(index, pixels, mask);
    return label(index);
  }
  [[nodiscard]] const ImageSet* images() const final { return this; }

 protected:
  ImageSet(SetFacts facts, ImageFacts images)
      : DataSet(std::move(facts)), facts_(std::move(images)) {}

 private:
  ImageFacts facts_;
};

/// Pixels, of all channels, in one sample of `shape`.
constexpr std::size_t sample_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width) *
         static_cast<std::size_t>(shape.channels);
}

/// Pixels of the mask of one sample.
constexpr std::size_t mask_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

/// Bytes of the mask of one sample; 0 where the targets are labels.
inline std::size_t mask_bytes(const ImageSet& set) {
  return set.target() == Target::mask ? mask_size(set.shape()) : 0;
}

inline constexpr int kShapeSideMax = 512;

/// Sides are at most kShapeSideMax, channels 1 or 3. Throws DataError.
ImageShape parse_image_shape(const std::string& text);

}  // namespace ddprun::trainer
