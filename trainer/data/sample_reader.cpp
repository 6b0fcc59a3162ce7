#include "trainer/data/sample_reader.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::trainer {
namespace {

std::size_t bytes_of_sample(const ImageSet& set) {
  return sample_size(set.shape()) + mask_bytes(set);
}

std::size_t queued_samples(const ImageSet& set, const SampleReader::Settings& settings) {
  const std::size_t of_threads = static_cast<std::size_t>(settings.threads) + 1;
  const std::size_t room = SampleReader::kQueueBytesMost / bytes_of_sample(set);
  return std::max(std::min(2 * settings.samples_of_step, room), of_threads);
}

}  // namespace

SampleReader::SampleReader(const DataSet& set, Settings settings)
    : set_(set), images_(set.images()) {
  if (images_ == nullptr) return;
  pixels_ = sample_size(images_->shape());
  if (images_->is_in_memory()) return;
  queue_.emplace(DecodeQueue::Settings{.sample_bytes = bytes_of_sample(*images_),
                                       .samples = queued_samples(*images_, settings),
                                       .threads = settings.threads},
                 [this](std::size_t index, std::span<std::uint8_t> bytes) {
                   images_->read(index, bytes.first(pixels_), bytes.subspan(pixels_));
                 });
}

void SampleReader::expect(std::size_t count,
                          const std::function<std::size_t(std::size_t place)>& sample) {
  if (!queue_) return;
  std::vector<std::uint32_t> order(count);
  for (std::size_t place = 0; place < count; ++place)
    order[place] = static_cast<std::uint32_t>(sample(place));
  queue_->expect(std::move(order));
}

std::int32_t SampleReader::read(std::size_t place, std::size_t index,
                                std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  if (!queue_) return images_->read(index, pixels, mask);
  queue_->take(place, [&](std::span<const std::uint8_t> bytes) {
    std::copy_n(bytes.begin(), pixels.size(), pixels.begin());
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(pixels_), mask.size(), mask.begin());
  });
  return set_.label(index);
}

std::uint64_t SampleReader::bytes(const DataSet& set, const Settings& settings) {
  const ImageSet* const images = set.images();
  if (images == nullptr || images->is_in_memory()) return 0;
  return queued_samples(*images, settings) * bytes_of_sample(*images) +
         static_cast<std::uint64_t>(settings.threads) * images->reading_bytes();
}

}  // namespace ddprun::trainer
