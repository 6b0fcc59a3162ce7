// Images of 8 bits a channel held decoded in memory.
#pragma once

#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

/// The bytes of a set: size x height x width x channels, and a label or a mask each.
struct ByteImages {
  ImageShape shape;
  int classes = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;  ///< empty: there are masks
  std::vector<std::uint8_t> masks;   ///< size x height x width, 255 where a pixel belongs to it
};

/// Mean and deviation of every channel over all pixels, from integer sums: the same bits on every
/// machine. A deviation of zero (an empty channel) becomes one.
Normalization measure_normalization(const ByteImages& images);

/// A DataSet over bytes in memory.
class ByteImageSet final : public DataSet {
 public:
  /// Requires pixels and labels or masks to agree in number, and labels below `classes`.
  ByteImageSet(std::string name, ByteImages images, Normalization normalization);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] ImageShape shape() const override { return images_.shape; }
  [[nodiscard]] Target target() const override {
    return images_.masks.empty() ? Target::label : Target::mask;
  }
  [[nodiscard]] int classes() const override { return images_.classes; }
  [[nodiscard]] std::size_t size() const override { return size_; }
  [[nodiscard]] const Normalization& normalization() const override { return normalization_; }
  /// hash_bytes() of the labels or masks that starts with that of the pixels.
  [[nodiscard]] std::uint64_t content_hash() const override { return content_hash_; }
  [[nodiscard]] std::uint64_t bytes() const override {
    return images_.pixels.size() + images_.labels.size() + images_.masks.size();
  }
  std::int32_t read(std::size_t index, std::span<std::uint8_t> pixels) const override;
  void read_mask(std::size_t index, std::span<float> mask) const override;
  [[nodiscard]] std::uint64_t mask_pixels() const override;

 private:
  std::string name_;
  ByteImages images_;
  std::size_t size_;
  Normalization normalization_;
  std::uint64_t content_hash_;
};

}  // namespace ddprun::trainer
