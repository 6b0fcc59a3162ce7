#include "trainer/data/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/start_thread.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Samples of decode_all() that may wait for the one before them, for each thread.
constexpr std::size_t kWaitingSamples = 4;

std::size_t bytes_of_sample(const ImageSet& set) {
  return sample_size(set.shape()) + mask_bytes(set);
}

std::size_t queued_samples(const ImageSet& set, const SampleReader::Settings& settings) {
  const std::size_t of_threads = static_cast<std::size_t>(settings.threads) + 1;
  const std::size_t room = SampleReader::kQueueBytesMost / bytes_of_sample(set);
  return std::max(std::min(2 * settings.samples_of_step, room), of_threads);
}

}  // namespace

DecodeQueue::DecodeQueue(Settings settings, Decode decode)
    : settings_(settings),
      decode_(std::move(decode)),
      bytes_(settings.samples * settings.sample_bytes),
      slots_(settings.samples) {
  DDPRUN_ASSERT(settings.samples > 0, "room for a sample");
  const int threads = std::max(1, settings.threads);
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    auto started = start_thread("decode", [this] { serve(); });
    if (started) {
      threads_.push_back(std::move(*started));
    } else if (threads_.empty()) {
      throw DataError(
          fmt::format("a thread that decodes images: {}", why_no_thread(started.error())));
    } else {
      break;  // fewer threads are slower, no more
    }
  }
}

DecodeQueue::~DecodeQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::span<std::uint8_t> DecodeQueue::bytes_of(std::size_t place) {
  return std::span(bytes_).subspan(place % settings_.samples * settings_.sample_bytes,
                                   settings_.sample_bytes);
}

void DecodeQueue::expect(std::vector<std::uint32_t> order) {
  {
    std::unique_lock lock(mutex_);
    order_.clear();  // so that no decoder takes up more
    changed_.wait(lock, [this] { return decoding_ == 0; });
    order_ = std::move(order);
    next_ = 0;
    first_ = 0;
    held_ = 0;
    std::fill(slots_.begin(), slots_.end(), Slot{});
  }
  work_.notify_all();
}

void DecodeQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || has_work(); });
    if (stopping_) return;
    const std::size_t place = next_++;
    const std::size_t index = order_[place];
    slot_of(place).state = State::decoding;
    ++decoding_;
    most_held_ = std::max(most_held_, ++held_);
    lock.unlock();
    std::exception_ptr error;
    try {
      decode_(index, bytes_of(place));
    } catch (...) {
      error = std::current_exception();  // rethrown by take()
    }
    lock.lock();
    --decoding_;
    slot_of(place) = {.state = error ? State::failed : State::ready, .error = error};
    // Not for each sample: waking a thread takes as long as decoding a small image.
    const bool is_last = order_.empty() && decoding_ == 0;  // expect() waits for it
    if (is_last || std::find(wanted_.begin(), wanted_.end(), place) != wanted_.end())
      changed_.notify_all();
  }
}

void DecodeQueue::take(std::size_t place,
                       const std::function<void(std::span<const std::uint8_t>)>& use) {
  std::unique_lock lock(mutex_);
  DDPRUN_ASSERT(place >= first_ && place < order_.size(), "a place that has not been taken");
  const auto is_here = [&] {
    const State state = slot_of(place).state;
    return place < next_ && (state == State::ready || state == State::failed);
  };
  if (!broken_ && !is_here()) {
    wanted_.push_back(place);
    work_.notify_all();
    changed_.wait(lock, [&] { return broken_ || is_here(); });
    wanted_.erase(std::find(wanted_.begin(), wanted_.end(), place));
  }
  if (!broken_ && slot_of(place).state == State::failed) {
    broken_ = slot_of(place).error;
    changed_.notify_all();
  }
  if (broken_) std::rethrow_exception(broken_);
  lock.unlock();
  use(bytes_of(place));
  lock.lock();
  --held_;
  slot_of(place).state = State::taken;
  if (place != first_) return;
  while (first_ < next_ && slot_of(first_).state == State::taken)
    slot_of(first_++).state = State::free;
  // Else by a reader that has to wait.
  const bool is_half_free = 2 * (next_ - first_) <= settings_.samples;
  const bool wakes_decoders = is_half_free || !wanted_.empty();
  lock.unlock();
  if (wakes_decoders) work_.notify_all();
}

std::size_t DecodeQueue::most_held() const {
  const std::lock_guard lock(mutex_);
  return most_held_;
}

void decode_all(
    std::size_t count, std::size_t sample_bytes, int threads, const DecodeQueue::Decode& decode,
    const std::function<void(std::size_t index, std::span<const std::uint8_t> bytes)>& use) {
  const int used = std::max(1, threads);
  DecodeQueue queue({.sample_bytes = sample_bytes,
                     .samples = kWaitingSamples * static_cast<std::size_t>(used),
                     .threads = used},
                    decode);
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  queue.expect(std::move(order));
  for (std::size_t i = 0; i < count; ++i)
    queue.take(i, [&](std::span<const std::uint8_t> bytes) { use(i, bytes); });
}

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
