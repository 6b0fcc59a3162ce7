#include "trainer/data/resized_set.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "trainer/data/decode_queue.hpp"
#include "trainer/data/resize.hpp"

namespace ddprun::trainer {
namespace {

/// Samples that may wait for the one before them, for each thread.
constexpr std::size_t kQueuedOfThread = 4;

std::uint64_t bytes_in(const ByteImages& images, ImageShape shape) {
  return std::uint64_t{count_images(images)} *
         (sample_size(shape) + (images.masks.empty() ? kLabelBytes : mask_size(shape)));
}

}  // namespace

ResizedFacts measure_resized(const ByteImages& images, ImageShape shape, int threads) {
  const std::size_t pixels = sample_size(shape);
  const std::size_t of_mask = images.masks.empty() ? 0 : mask_size(shape);
  const std::size_t count = count_images(images);
  DecodeQueue queue({.sample_bytes = pixels + of_mask,
                     .samples = kQueuedOfThread * static_cast<std::size_t>(std::max(1, threads)),
                     .threads = threads},
                    [&](std::size_t index, std::span<std::uint8_t> bytes) {
                      fit_image(images, index, shape, bytes.first(pixels), bytes.subspan(pixels));
                    });
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  queue.expect(std::move(order));
  ResizedFacts facts{.content_hash = 0, .sums = ChannelSums(shape.channels)};
  ContentHash hash;
  for (std::size_t i = 0; i < count; ++i) {
    queue.take(i, [&](std::span<const std::uint8_t> bytes) {
      const auto mask = bytes.subspan(pixels);
      facts.sums.add(bytes.first(pixels));
      facts.marked_pixels += count_marked(mask);
      hash.add(bytes.first(pixels), mask);
    });
  }
  facts.content_hash = images.masks.empty() ? hash.end(images.labels) : hash.end();
  return facts;
}

ResizedSet::ResizedSet(std::string name, ByteImages images, ImageShape shape,
                       const ResizedFacts& facts, Normalization normalization)
    : name_(std::move(name)),
      images_(std::move(images)),
      shape_(shape),
      size_(count_images(images_)),
      normalization_(std::move(normalization)),
      content_hash_(facts.content_hash),
      mask_pixels_(facts.marked_pixels) {}

std::uint64_t ResizedSet::bytes() const { return bytes_of(images_); }

std::uint64_t ResizedSet::reading_bytes() const {
  ImageShape own = images_.shape;
  own.channels = std::max(own.channels, shape_.channels);
  const ImageShape columns{
      .height = own.height, .width = shape_.width, .channels = shape_.channels};
  const std::uint64_t masks =
      images_.masks.empty() ? 0 : mask_size(images_.shape) + mask_size(shape_);
  return sample_size(own) + sample_size(columns) + sample_size(shape_) + masks;
}

void ResizedSet::read_image(std::size_t index, std::span<std::uint8_t> pixels,
                            std::span<std::uint8_t> mask) const {
  DDPRUN_ASSERT(index < size_, "sample out of range");
  fit_image(images_, index, shape_, pixels, mask);
}

TrainAndTest make_fitted_sets(const std::filesystem::path& folder, ByteImages train,
                              ByteImages test, const ImageFit& fit) {
  const std::uint64_t own = bytes_of(train) + bytes_of(test);
  const std::uint64_t fitted =
      fit.shape ? bytes_in(train, *fit.shape) + bytes_in(test, *fit.shape) : own;
  if (fitted_bytes(own, fitted, fit) == fitted)
    return make_image_sets(folder, fit_images(std::move(train), fit.shape),
                           fit_images(std::move(test), fit.shape));
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
