// What the training loop sees of a data set: images with labels or masks that lie decoded in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// One value per channel, of pixels scaled to 0..1. A network sees (pixel - mean) / deviation.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// A fixed list of samples. Reading one allocates nothing and is safe from several threads at once.
class DataSet {
 public:
  virtual ~DataSet() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual ImageShape shape() const = 0;
  /// What each image comes with.
  [[nodiscard]] virtual Target target() const = 0;
  /// Of the labels; 1 of masks.
  [[nodiscard]] virtual int classes() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual const Normalization& normalization() const = 0;

  /// Hash of all samples' bytes and targets (base/hash_bytes.hpp), and of nothing else: the same
  /// set has it in any folder. Known since the set was loaded.
  [[nodiscard]] virtual std::uint64_t content_hash() const = 0;

  /// Writes sample `index` (below size()) as height x width x channels normalised floats; gives its
  /// label, 0 to classes() - 1. `pixels` has exactly that many floats.
  virtual std::int32_t read(std::size_t index, std::span<float> pixels) const = 0;
  /// Of a set of masks: writes that of sample `index`, height x width floats from 0 to 1.
  virtual void read_mask(std::size_t index, std::span<float> mask) const = 0;
};

/// Floats in one sample of `shape`.
constexpr std::size_t sample_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width) *
         static_cast<std::size_t>(shape.channels);
}

/// Floats in its mask.
constexpr std::size_t mask_size(ImageShape shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

}  // namespace ddprun::trainer
