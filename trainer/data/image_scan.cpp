#include "trainer/data/image_scan.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/hash_bytes.hpp"
#include "trainer/data/decode_queue.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Why files cannot be used, from the threads that decode.
class Reasons {
 public:
  void add(std::size_t index, std::string reason) {
    const std::lock_guard lock(mutex_);
    reasons_.emplace(index, std::move(reason));
  }
  std::optional<std::string> take(std::size_t index) {
    const std::lock_guard lock(mutex_);
    const auto found = reasons_.find(index);
    if (found == reasons_.end()) return std::nullopt;
    return std::move(reasons_.extract(found).mapped());
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::string> reasons_;
};

/// Adds one sample after the other.
class Scan {
 public:
  Scan(const ImageSettings& settings, std::size_t most, bool has_masks, bool keeps)
      : keeps_(keeps), has_masks_(has_masks), sums_(settings.shape.channels) {
    result_.images.shape = settings.shape;
    result_.files.reserve(most);
    if (keeps) {
      result_.images.pixels.reserve(most * sample_size(settings.shape));
      result_.images.masks.reserve(has_masks ? most * mask_size(settings.shape) : 0);
    } else {
      result_.hashes.reserve(most);
    }
  }

  void add(ImageFile file, std::span<const std::uint8_t> pixels,
           std::span<const std::uint8_t> mask) {
    result_.mask_pixels += mask.size();
    result_.marked_pixels += count_marked(mask);
    labels_.push_back(file.label);
    result_.files.push_back(std::move(file));
    if (keeps_) {
      result_.images.pixels.insert(result_.images.pixels.end(), pixels.begin(), pixels.end());
      result_.images.masks.insert(result_.images.masks.end(), mask.begin(), mask.end());
      return;
    }
    result_.hashes.push_back(sample_hash(pixels, mask));
    sums_.add(pixels);
    content_.add(pixels, mask);
  }

  void skip(std::string reason) { result_.skipped += {.count = 1, .reasons = {std::move(reason)}}; }

  ScannedImages end() {
    result_.content_hash = has_masks_ ? content_.end() : content_.end(labels_);
    result_.sums = std::move(sums_);
    if (!has_masks_) result_.images.labels = std::move(labels_);
    return std::move(result_);
  }

 private:
  bool keeps_;
  bool has_masks_;
  ScannedImages result_;
  ChannelSums sums_;
  ContentHash content_;
  std::vector<ImageLabel> labels_;
};

}  // namespace

SkippedFiles& SkippedFiles::operator+=(const SkippedFiles& more) {
  count += more.count;
  for (const std::string& reason : more.reasons)
    if (reasons.size() < kReasonsMost) reasons.push_back(reason);
  return *this;
}

std::uint64_t sample_hash(std::span<const std::uint8_t> pixels,
                          std::span<const std::uint8_t> mask) {
  return hash_bytes(std::as_bytes(mask), mask.size(),
                    hash_bytes(std::as_bytes(pixels), pixels.size()));
}

ScannedImages scan_image_files(std::vector<ImageFile> files, const ImageSettings& settings,
                               bool keeps) {
  const bool has_masks = !files.empty() && !files.front().mask.empty();
  const std::size_t pixels = sample_size(settings.shape);
  Scan scan(settings, files.size(), has_masks, keeps);
  Reasons reasons;
  std::atomic<std::uint64_t> most_bytes = 0;
  const auto decode = [&](std::size_t index, std::span<std::uint8_t> bytes) {
    try {
      const std::uint64_t held =
          read_image_file(files[index], settings, bytes.first(pixels), bytes.subspan(pixels));
      std::uint64_t most = most_bytes.load();
      while (held > most && !most_bytes.compare_exchange_weak(most, held)) {
      }
    } catch (const DataError& error) {
      reasons.add(index, error.what());
    }
  };
  const auto add = [&](std::size_t index, std::span<const std::uint8_t> bytes) {
    auto reason = reasons.take(index);
    if (!reason) {
      scan.add(std::move(files[index]), bytes.first(pixels), bytes.subspan(pixels));
    } else if (settings.skip_bad) {
      scan.skip(std::move(*reason));
    } else {
      throw DataError(*reason);
    }
  };
  decode_all(files.size(), pixels + (has_masks ? mask_size(settings.shape) : 0), settings.threads,
             decode, add);
  ScannedImages scanned = scan.end();
  scanned.decode_bytes = most_bytes.load();
  return scanned;
}

}  // namespace ddprun::trainer
