// Images of 8 bits a channel held decoded in memory.
#pragma once

#include "base/hash_bytes.hpp"
#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

/// A set: size x height x width x channels bytes, and a label or a mask each.
struct ByteImages {
  ImageShape shape;
  int classes = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<ImageLabel> labels;   ///< empty: there are masks
  std::vector<std::uint8_t> masks;  ///< size x height x width, 255 where a pixel belongs to it
};

std::size_t count_images(const ByteImages& images);
inline Target target_of(const ByteImages& images) {
  return images.masks.empty() ? Target::label : Target::mask;
}
/// 0 where there are masks.
inline std::int32_t label_of(const ByteImages& images, std::size_t index) {
  return images.labels.empty() ? 0 : images.labels[index];
}
/// That they take in memory.
std::uint64_t bytes_of(const ByteImages& images);
/// Which of these pixels of masks belong to them (is_in_mask()).
std::uint64_t count_marked(std::span<const std::uint8_t> mask);

/// Sums over pixels that come one sample after the other.
class ChannelSums {
 public:
  explicit ChannelSums(int channels = 0);
  void add(std::span<const std::uint8_t> pixels);
  /// Mean and deviation of every channel, from integer sums: the same bits on every machine. A
  /// deviation of zero (an empty channel) becomes one.
  [[nodiscard]] Normalization normalization() const;

 private:
  std::vector<std::uint64_t> sum_, square_sum_;  // of each channel
  std::uint64_t pixels_ = 0;
};
/// Mean and deviation of all pixels.
Normalization measure_normalization(const ByteImages& images);

/// The content hash of images that come one after the other: hash_bytes() of the labels that starts
/// with that of all pixels. Labels are one byte each; where one of them is 256 or more, all are two
/// bytes, little-endian. Where there are masks: of the pixels and the mask of each image, one
/// image after the other.
class ContentHash {
 public:
  void add(std::span<const std::uint8_t> pixels, std::span<const std::uint8_t> mask);
  /// Where there are labels: of all of these.
  [[nodiscard]] std::uint64_t end(std::span<const ImageLabel> labels) const;
  /// Where there are masks.
  [[nodiscard]] std::uint64_t end() const { return hash_.end(bytes_); }

 private:
  BytesHash hash_;
  std::uint64_t bytes_ = 0;
};

/// An ImageSet over bytes in memory. Its hash is as ContentHash makes it.
class ByteImageSet final : public ImageSet {
 public:
  /// Requires pixels and labels or masks to agree in number, and labels below `classes`.
  ByteImageSet(std::string name, ByteImages images, Normalization normalization);

  [[nodiscard]] std::int32_t label(std::size_t index) const override {
    return label_of(images_, index);
  }
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override;

 private:
  ByteImages images_;
};

}  // namespace ddprun::trainer
