// Images of 8 bits in another size: pure, the same bytes on every machine. And a set of images that
// are in memory in their own size and too large for it in the size of the network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// Bilinear, and antialiased where it shrinks: a side is filtered by a triangle that is as wide as
/// two of the larger pixels. Columns first, then rows, each rounded to bytes: the bytes of Pillow's
/// resize(BILINEAR) where it has the same order, else within 1 of them, and of torch's
/// interpolate(mode="bilinear", antialias=True). Sides of 1 or more.
ByteImage resize_bilinear(ByteImage image, int height, int width);
/// The most that it holds at one time, both images included: while columns are resized, and then
/// while rows are.
std::uint64_t resizing_bytes(ImageShape from, int height, int width);

/// Each pixel is one of the image: torch's mode "nearest". For masks.
ByteImage resize_nearest(const ByteImage& image, int height, int width);

/// Image `index` in `shape`, and its mask, nearest. Both have exactly that many bytes; without
/// masks `mask` is empty.
void fit_image(const ByteImages& images, std::size_t index, ImageShape shape,
               std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask);

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
