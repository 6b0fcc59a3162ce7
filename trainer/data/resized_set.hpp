// Images that are in memory in their own size and too large for it in the size of the network: one
// is resized whenever it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// What images of files that hold many become.
struct ImageFit {
  std::optional<ImageShape> shape = std::nullopt;  ///< that they are resized to; none: their own
  /// Sets that take more bytes in this shape, and fewer in their own, are resized when they are
  /// read.
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
  int threads = 1;  ///< that resize
};

/// All images in `shape`, masks nearest; as they are if there is none. By `threads` threads. Throws
/// DataError where the system refuses the first one.
ByteImages fit_images(ByteImages images, const std::optional<ImageShape>& shape, int threads);

/// What a pass over all images in their new size finds.
struct ResizedFacts {
  std::uint64_t content_hash = 0;  ///< as ByteImageSet::content_hash()
  ChannelSums sums;
  std::uint64_t marked_pixels = 0;  ///< that belong to masks (is_in_mask())
};
/// By `threads` threads, as fit_images().
ResizedFacts measure_resized(const ByteImages& images, ImageShape shape, int threads);

/// The memory that it takes is that of the images in their own size.
class ResizedSet final : public ImageSet {
 public:
  /// `facts`: what measure_resized() found of these images in this shape.
  ResizedSet(std::string name, ByteImages images, ImageShape shape, const ResizedFacts& facts,
             Normalization normalization);

  [[nodiscard]] std::int32_t label(std::size_t index) const override {
    return label_of(images_, index);
  }
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override;

 private:
  ByteImages images_;
};

/// Sets of the images that were read from `folder`, as make_image_sets() makes them, in fit.shape.
TrainAndTest make_fitted_sets(const std::filesystem::path& folder, ByteImages train,
                              ByteImages test, const ImageFit& fit);

/// Bytes that the sets of make_fitted_sets() come to hold: `own`, which both take in their own
/// size, or `fitted`, which they take in fit.shape.
std::uint64_t fitted_bytes(std::uint64_t own, std::uint64_t fitted, const ImageFit& fit);

}  // namespace ddprun::trainer
