#include "trainer/data/resized_set.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "trainer/data/decode_queue.hpp"
#include "trainer/data/resize.hpp"

namespace ddprun::trainer {
namespace {

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
