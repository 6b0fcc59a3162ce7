// Compiled without contraction of a * b + c (see CMakeLists.txt), so that machines with and without
// fused multiply-add have the same weights.
#include "trainer/data/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/assert.hpp"

namespace ddprun::trainer {
namespace {

/// Behind the point of a weight: 255 times 1 fits 31 bits.
constexpr int kWeightBits = 22;

/// Where each pixel of one side comes from.
struct Taps {
  std::vector<std::size_t> first;  // of the source's pixels
  std::vector<std::size_t> count;
  std::size_t most = 0;               // of count
  std::vector<std::int32_t> weights;  // `most` for each pixel; they add up to 1 << kWeightBits
};

Taps taps_of(int from, int to) {
  Taps taps;
  const double scale = static_cast<double>(from) / to;
  const double reach = std::max(scale, 1.0);
  taps.most = static_cast<std::size_t>(std::ceil(reach)) * 2 + 1;
  taps.weights.assign(static_cast<std::size_t>(to) * taps.most, 0);
  std::vector<double> weights(taps.most);
  for (int i = 0; i < to; ++i) {
    const double centre = scale * (i + 0.5);
    const int begin = std::max(static_cast<int>(centre - reach + 0.5), 0);
    const int end = std::min(static_cast<int>(centre + reach + 0.5), from);
    const auto count = static_cast<std::size_t>(end - begin);
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const double distance = (begin + static_cast<int>(k) - centre + 0.5) / reach;
      weights[k] = std::max(0.0, 1.0 - std::abs(distance));
      sum += weights[k];
    }
    for (std::size_t k = 0; k < count; ++k) {
      taps.weights[static_cast<std::size_t>(i) * taps.most + k] =
          static_cast<std::int32_t>(std::lround(weights[k] / sum * (1 << kWeightBits)));
    }
    taps.first.push_back(static_cast<std::size_t>(begin));
    taps.count.push_back(count);
  }
  return taps;
}

/// Filters lines of `from` groups of `inner` bytes, each into one of taps.first.size() groups.
std::vector<std::uint8_t> filter(const std::vector<std::uint8_t>& source, const Taps& taps,
                                 std::size_t lines, std::size_t from, std::size_t inner) {
  const std::size_t to = taps.first.size();
  std::vector<std::uint8_t> result(lines * to * inner);
  std::vector<std::int32_t> sums(inner);
  for (std::size_t line = 0; line < lines; ++line) {
    const std::uint8_t* const in = source.data() + line * from * inner;
    std::uint8_t* out = result.data() + line * to * inner;
    for (std::size_t i = 0; i < to; ++i) {
      std::fill(sums.begin(), sums.end(), 1 << (kWeightBits - 1));
      for (std::size_t k = 0; k < taps.count[i]; ++k) {
        const std::int32_t weight = taps.weights[i * taps.most + k];
        const std::uint8_t* const group = in + (taps.first[i] + k) * inner;
        for (std::size_t c = 0; c < inner; ++c) sums[c] += weight * group[c];
      }
      for (std::size_t c = 0; c < inner; ++c)
        *out++ = static_cast<std::uint8_t>(std::min(sums[c] >> kWeightBits, 255));
    }
  }
  return result;
}

ByteImage part_of(const std::vector<std::uint8_t>& all, std::size_t index, ImageShape shape) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * sample_size(shape));
  return {.shape = shape,
          .pixels = {begin, begin + static_cast<std::ptrdiff_t>(sample_size(shape))}};
}

}  // namespace

ByteImage resize_bilinear(ByteImage image, int height, int width) {
  DDPRUN_ASSERT(height > 0 && width > 0 && image.pixels.size() == sample_size(image.shape),
                "an image of pixels");
  const auto rows = static_cast<std::size_t>(image.shape.height);
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  if (width != image.shape.width) {
    image.pixels = filter(image.pixels, taps_of(image.shape.width, width), rows,
                          static_cast<std::size_t>(image.shape.width), channels);
  }
  if (height != image.shape.height) {
    image.pixels = filter(image.pixels, taps_of(image.shape.height, height), 1, rows,
                          static_cast<std::size_t>(width) * channels);
  }
  image.shape = {.height = height, .width = width, .channels = image.shape.channels};
  return image;
}

std::uint64_t resizing_bytes(ImageShape from, int height, int width) {
  ImageShape columns = from;
  columns.width = width;
  ImageShape to = columns;
  to.height = height;
  return sample_size(columns) + std::max(sample_size(from), sample_size(to));
}

ByteImage resize_nearest(const ByteImage& image, int height, int width) {
  DDPRUN_ASSERT(height > 0 && width > 0 && image.pixels.size() == sample_size(image.shape),
                "an image of pixels");
  ByteImage result{.shape = {.height = height, .width = width, .channels = image.shape.channels},
                   .pixels = {}};
  result.pixels.resize(sample_size(result.shape));
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  std::uint8_t* out = result.pixels.data();
  const auto source_of = [](int i, int from, int to) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(i) * from / to);
  };
  for (int row = 0; row < height; ++row) {
    const std::size_t line =
        source_of(row, image.shape.height, height) * static_cast<std::size_t>(image.shape.width);
    for (int column = 0; column < width; ++column) {
      const std::size_t pixel = line + source_of(column, image.shape.width, width);
      out = std::copy_n(image.pixels.data() + pixel * channels, channels, out);
    }
  }
  return result;
}

void fit_image(const ByteImages& images, std::size_t index, ImageShape shape,
               std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  const ByteImage image =
      resize_bilinear(with_channels(part_of(images.pixels, index, images.shape), shape.channels),
                      shape.height, shape.width);
  DDPRUN_ASSERT(pixels.size() == image.pixels.size(), "room for an image");
  std::copy(image.pixels.begin(), image.pixels.end(), pixels.begin());
  if (images.masks.empty()) return;
  ImageShape mask_shape = images.shape;
  mask_shape.channels = 1;
  const ByteImage drawn =
      resize_nearest(part_of(images.masks, index, mask_shape), shape.height, shape.width);
  DDPRUN_ASSERT(mask.size() == drawn.pixels.size(), "room for a mask");
  std::copy(drawn.pixels.begin(), drawn.pixels.end(), mask.begin());
}

}  // namespace ddprun::trainer
