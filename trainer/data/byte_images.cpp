#include "trainer/data/byte_images.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"

namespace ddprun::trainer {

std::size_t count_images(const ByteImages& images) {
  return images.pixels.size() / sample_size(images.shape);
}

std::uint64_t bytes_of(const ByteImages& images) {
  return images.pixels.size() + images.labels.size() * kLabelBytes + images.masks.size();
}

std::uint64_t count_marked(std::span<const std::uint8_t> mask) {
  constexpr std::uint8_t kHalf = 128;  // the first byte from 0.5 on
  return static_cast<std::uint64_t>(
      std::count_if(mask.begin(), mask.end(), [](std::uint8_t value) { return value >= kHalf; }));
}

ChannelSums::ChannelSums(int channels)
    : sum_(static_cast<std::size_t>(channels)), square_sum_(sum_.size()) {}

void ChannelSums::add(std::span<const std::uint8_t> pixels) {
  const std::size_t channels = sum_.size();
  for (std::size_t i = 0; i < pixels.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::uint64_t value = pixels[i + c];
      sum_[c] += value;
      square_sum_[c] += value * value;
    }
  }
  pixels_ += pixels.size() / channels;
}

Normalization ChannelSums::normalization() const {
  Normalization result;
  const auto count = static_cast<double>(pixels_);
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    const double mean = count > 0 ? static_cast<double>(sum_[c]) / count : 0;
    const double variance =
        count > 0 ? static_cast<double>(square_sum_[c]) / count - mean * mean : 0;
    result.mean.push_back(static_cast<float>(mean / 255));
    result.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
  }
  return result;
}

Normalization measure_normalization(const ByteImages& images) {
  ChannelSums sums(images.shape.channels);
  sums.add(images.pixels);
  return sums.normalization();
}

void ContentHash::add(std::span<const std::uint8_t> pixels, std::span<const std::uint8_t> mask) {
  hash_.add(std::as_bytes(pixels));
  hash_.add(std::as_bytes(mask));
  bytes_ += pixels.size() + mask.size();
}

std::uint64_t ContentHash::end(std::span<const ImageLabel> labels) const {
  const auto hash = [&](auto values) {
    return hash_bytes(std::as_bytes(values), values.size_bytes(), hash_.end(bytes_));
  };
  // Checkpoints of sets with few classes have the hash of bytes.
  if (std::any_of(labels.begin(), labels.end(), [](ImageLabel label) { return label > 0xff; }))
    return hash(labels);
  const std::vector<std::uint8_t> bytes(labels.begin(), labels.end());
  return hash(std::span(bytes));
}

namespace {

std::uint64_t hash_of(const ByteImages& images) {
  ContentHash hash;
  if (images.masks.empty()) {
    hash.add(images.pixels, {});
    return hash.end(images.labels);
  }
  const std::size_t size = sample_size(images.shape);
  const std::size_t of_mask = mask_size(images.shape);
  for (std::size_t i = 0; i < count_images(images); ++i)
    hash.add(std::span(images.pixels).subspan(i * size, size),
             std::span(images.masks).subspan(i * of_mask, of_mask));
  return hash.end();
}

}  // namespace

ByteImageSet::ByteImageSet(std::string name, ByteImages images, Normalization normalization)
    : ImageSet({.name = std::move(name),
                .classes = images.classes,
                .size = count_images(images),
                .content_hash = hash_of(images),
                .bytes = bytes_of(images)},
               {.shape = images.shape,
                .target = target_of(images),
                .normalization = std::move(normalization),
                .mask_pixels = count_marked(images.masks)}),
      images_(std::move(images)) {
  const auto channels = static_cast<std::size_t>(images_.shape.channels);
  DDPRUN_ASSERT(images_.pixels.size() == size() * sample_size(images_.shape), "part of an image");
  DDPRUN_ASSERT(
      images_.masks.empty()
          ? images_.labels.size() == size()
          : images_.labels.empty() && images_.masks.size() == size() * mask_size(images_.shape),
      "pixels and targets disagree");
  DDPRUN_ASSERT(this->normalization().mean.size() == channels &&
                    this->normalization().deviation.size() == channels,
                "one mean and deviation for each channel");
}

void ByteImageSet::read_image(std::size_t index, std::span<std::uint8_t> pixels,
                              std::span<std::uint8_t> mask) const {
  const std::size_t of_mask = mask_bytes(*this);
  DDPRUN_ASSERT(index < size() && pixels.size() == sample_size(shape()) && mask.size() == of_mask,
                "sample out of range");
  std::copy_n(images_.pixels.data() + index * pixels.size(), pixels.size(), pixels.data());
  std::copy_n(images_.masks.data() + index * of_mask, of_mask, mask.data());
}

}  // namespace ddprun::trainer
