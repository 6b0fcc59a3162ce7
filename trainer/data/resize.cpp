// Compiled without contraction of a * b + c (see CMakeLists.txt), so that machines with and without
// fused multiply-add have the same weights.
#include "trainer/data/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "trainer/data/sample_reader.hpp"

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

std::uint64_t bytes_in(const ByteImages& images, ImageShape shape) {
  return std::uint64_t{count_images(images)} *
         (sample_size(shape) + (images.masks.empty() ? kLabelBytes : mask_size(shape)));
}

/// What reading one takes: the image and its mask in both sizes.
std::uint64_t bytes_to_read(const ByteImages& images, ImageShape shape) {
  ImageShape own = images.shape;
  const std::uint64_t stored = own.channels == shape.channels ? 0 : sample_size(own);
  own.channels = shape.channels;
  const std::uint64_t with_mask =
      images.masks.empty() ? 0 : sample_size(shape) + mask_size(images.shape) + mask_size(shape);
  return std::max(
      {stored + sample_size(own), resizing_bytes(own, shape.height, shape.width), with_mask});
}

using ByteSpan = std::span<const std::uint8_t>;

/// Shows all images in `shape`, in their order, with their masks.
void resize_all(const ByteImages& images, ImageShape shape, int threads,
                const std::function<void(ByteSpan pixels, ByteSpan mask)>& use) {
  const std::size_t pixels = sample_size(shape);
  const std::size_t of_mask = images.masks.empty() ? 0 : mask_size(shape);
  decode_all(
      count_images(images), pixels + of_mask, threads,
      [&](std::size_t index, std::span<std::uint8_t> bytes) {
        fit_image(images, index, shape, bytes.first(pixels), bytes.subspan(pixels));
      },
      [&](std::size_t /*index*/, ByteSpan bytes) {
        use(bytes.first(pixels), bytes.subspan(pixels));
      });
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

ByteImages fit_images(ByteImages images, const std::optional<ImageShape>& shape, int threads) {
  if (!shape || images.shape == *shape) return images;
  ByteImages result{
      .shape = *shape, .classes = images.classes, .pixels = {}, .labels = {}, .masks = {}};
  const std::size_t count = count_images(images);
  result.pixels.reserve(count * sample_size(*shape));
  result.masks.reserve(images.masks.empty() ? 0 : count * mask_size(*shape));
  resize_all(images, *shape, threads, [&](ByteSpan pixels, ByteSpan mask) {
    result.pixels.insert(result.pixels.end(), pixels.begin(), pixels.end());
    result.masks.insert(result.masks.end(), mask.begin(), mask.end());
  });
  result.labels = std::move(images.labels);
  return result;
}

ResizedFacts measure_resized(const ByteImages& images, ImageShape shape, int threads) {
  ResizedFacts facts{.content_hash = 0, .sums = ChannelSums(shape.channels)};
  ContentHash hash;
  resize_all(images, shape, threads, [&](ByteSpan pixels, ByteSpan mask) {
    facts.sums.add(pixels);
    facts.marked_pixels += count_marked(mask);
    hash.add(pixels, mask);
  });
  facts.content_hash = images.masks.empty() ? hash.end(images.labels) : hash.end();
  return facts;
}

ResizedSet::ResizedSet(std::string name, ByteImages images, ImageShape shape,
                       const ResizedFacts& facts, Normalization normalization)
    : ImageSet({.name = std::move(name),
                .classes = images.classes,
                .size = count_images(images),
                .content_hash = facts.content_hash,
                .bytes = bytes_of(images),
                .is_in_memory = false},
               {.shape = shape,
                .target = target_of(images),
                .normalization = std::move(normalization),
                .mask_pixels = facts.marked_pixels,
                .reading_bytes = bytes_to_read(images, shape)}),
      images_(std::move(images)) {}

void ResizedSet::read_image(std::size_t index, std::span<std::uint8_t> pixels,
                            std::span<std::uint8_t> mask) const {
  DDPRUN_ASSERT(index < size(), "sample out of range");
  fit_image(images_, index, shape(), pixels, mask);
}

TrainAndTest make_fitted_sets(const std::filesystem::path& folder, ByteImages train,
                              ByteImages test, const ImageFit& fit) {
  const std::uint64_t own = bytes_of(train) + bytes_of(test);
  const std::uint64_t fitted =
      fit.shape ? bytes_in(train, *fit.shape) + bytes_in(test, *fit.shape) : own;
  if (fitted_bytes(own, fitted, fit) == fitted)
    return make_image_sets(folder, fit_images(std::move(train), fit.shape, fit.threads),
                           fit_images(std::move(test), fit.shape, fit.threads));
  DDPRUN_ASSERT(train.shape == test.shape && train.classes == test.classes,
                "two sets for one network");
  const std::string name = set_name(folder, *fit.shape);
  const ResizedFacts of_train = measure_resized(train, *fit.shape, fit.threads);
  const ResizedFacts of_test = measure_resized(test, *fit.shape, fit.threads);
  const Normalization normalization = of_train.sums.normalization();
  TrainAndTest sets;
  sets.train =
      std::make_unique<ResizedSet>(name, std::move(train), *fit.shape, of_train, normalization);
  sets.test =
      std::make_unique<ResizedSet>(name, std::move(test), *fit.shape, of_test, normalization);
  return sets;
}

std::uint64_t fitted_bytes(std::uint64_t own, std::uint64_t fitted, const ImageFit& fit) {
  return fitted > fit.memory && own < fitted ? own : fitted;
}

}  // namespace ddprun::trainer
