#include "trainer/data/byte_images.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "base/hash_bytes.hpp"

namespace ddprun::trainer {

Normalization measure_normalization(const ByteImages& images) {
  const auto channels = static_cast<std::size_t>(images.shape.channels);
  std::vector<std::uint64_t> sum(channels, 0);
  std::vector<std::uint64_t> square_sum(channels, 0);
  for (std::size_t i = 0; i < images.pixels.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::uint64_t value = images.pixels[i + c];
      sum[c] += value;
      square_sum[c] += value * value;
    }
  }
  Normalization result;
  const double count = static_cast<double>(images.pixels.size() / channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = count > 0 ? static_cast<double>(sum[c]) / count : 0;
    const double variance =
        count > 0 ? static_cast<double>(square_sum[c]) / count - mean * mean : 0;
    result.mean.push_back(static_cast<float>(mean / 255));
    result.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
  }
  return result;
}

namespace {

std::uint64_t hash_of(const ByteImages& images) {
  const std::uint64_t pixels =
      hash_bytes(std::as_bytes(std::span(images.pixels)), images.pixels.size());
  const std::vector<std::uint8_t>& targets = images.masks.empty() ? images.labels : images.masks;
  return hash_bytes(std::as_bytes(std::span(targets)), targets.size(), pixels);
}

}  // namespace

ByteImageSet::ByteImageSet(std::string name, ByteImages images, Normalization normalization)
    : name_(std::move(name)),
      images_(std::move(images)),
      size_(images_.pixels.size() / sample_size(images_.shape)),
      normalization_(std::move(normalization)),
      content_hash_(hash_of(images_)) {
  const auto channels = static_cast<std::size_t>(images_.shape.channels);
  DDPRUN_ASSERT(images_.pixels.size() == size_ * sample_size(images_.shape), "part of an image");
  DDPRUN_ASSERT(
      images_.masks.empty()
          ? images_.labels.size() == size_
          : images_.labels.empty() && images_.masks.size() == size_ * mask_size(images_.shape),
      "pixels and targets disagree");
  DDPRUN_ASSERT(
      normalization_.mean.size() == channels && normalization_.deviation.size() == channels,
      "one mean and deviation for each channel");
}

std::int32_t ByteImageSet::read(std::size_t index, std::span<std::uint8_t> pixels) const {
  const std::size_t size = sample_size(images_.shape);
  DDPRUN_ASSERT(index < size_ && pixels.size() == size, "sample out of range");
  std::copy_n(images_.pixels.data() + index * size, size, pixels.data());
  return images_.labels.empty() ? 0 : images_.labels[index];
}

void ByteImageSet::read_mask(std::size_t index, std::span<float> mask) const {
  const std::size_t size = mask_size(images_.shape);
  DDPRUN_ASSERT(index < size_ && mask.size() == size && !images_.masks.empty(),
                "mask out of range");
  const std::uint8_t* const source = images_.masks.data() + index * size;
  for (std::size_t i = 0; i < size; ++i) mask[i] = static_cast<float>(source[i]) / 255.0F;
}

std::uint64_t ByteImageSet::mask_pixels() const {
  constexpr std::uint8_t kHalf = 128;  // the first byte from 0.5 on
  return static_cast<std::uint64_t>(
      std::count_if(images_.masks.begin(), images_.masks.end(),
                    [](std::uint8_t value) { return value >= kHalf; }));
}

}  // namespace ddprun::trainer
