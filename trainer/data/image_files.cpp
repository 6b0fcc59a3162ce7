#include "trainer/data/image_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/hash_bytes.hpp"
#include "base/lower_case.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/resize.hpp"
#include "trainer/data/sample_reader.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// The largest image that is read, of 3 channels of two bytes each without compression, is smaller.
constexpr std::uint64_t kFileMax = std::uint64_t{512} << 20;

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

std::vector<std::string> image_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (FolderEntry& entry : list_folder(folder)) {
    const std::string extension =
        lower_case(std::filesystem::path(entry.name).extension().string());
    const bool is_image = extension == ".jpg" || extension == ".jpeg" || extension == ".png";
    if (is_image && !entry.name.starts_with('.')) names.push_back(std::move(entry.name));
  }
  return names;
}

std::uint64_t read_image_file(const ImageFile& file, const ImageSettings& settings,
                              std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  const ImageShape& shape = settings.shape;
  ByteImage image =
      decode_image(read_file_or_gzip(file.image, kFileMax), shape.channels, file.image);
  const int height = image.shape.height;
  const int width = image.shape.width;
  const std::uint64_t most =
      std::max(image.decode_bytes, resizing_bytes(image.shape, shape.height, shape.width));
  const ByteImage sized = resize_bilinear(std::move(image), shape.height, shape.width);
  std::copy(sized.pixels.begin(), sized.pixels.end(), pixels.begin());
  if (file.mask.empty()) return most;
  const ByteImage drawn = decode_mask(read_file_or_gzip(file.mask, kFileMax), file.mask);
  if (drawn.shape.height != height || drawn.shape.width != width) {
    throw DataError(fmt::format(
        "{}: a mask of {}x{} pixels, but its image {} has {}x{}: make both of one size, "
        "or remove both",
        file.mask, drawn.shape.height, drawn.shape.width, file.image, height, width));
  }
  const int threshold = settings.mask_threshold.value_or(kMaskThreshold);
  auto marked = mask.begin();
  for (const std::uint8_t value : resize_nearest(drawn, shape.height, shape.width).pixels)
    *marked++ = value >= threshold ? 255 : 0;
  return std::max(most, sized.pixels.size() + drawn.decode_bytes);
}

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

ImageFileSet::ImageFileSet(std::string name, ScannedImages scanned, int classes,
                           ImageSettings settings, Normalization normalization)
    : ImageSet({.name = std::move(name),
                .classes = classes,
                .size = scanned.files.size(),
                .content_hash = scanned.content_hash,
                .bytes = bytes_of(scanned.files),
                .is_in_memory = false},
               {.shape = settings.shape,
                .target = scanned.mask_pixels > 0 ? Target::mask : Target::label,
                .normalization = std::move(normalization),
                .mask_pixels = scanned.marked_pixels,
                .reading_bytes = scanned.decode_bytes}),
      files_(std::move(scanned.files)),
      hashes_(std::move(scanned.hashes)),
      settings_(settings) {
  DDPRUN_ASSERT(hashes_.size() == files_.size(), "a hash of each sample");
}

std::uint64_t ImageFileSet::bytes_of(const std::vector<ImageFile>& files) {
  std::uint64_t bytes = 0;
  for (const ImageFile& file : files)
    bytes +=
        sizeof(ImageFile) + sizeof(std::uint64_t) + file.image.capacity() + file.mask.capacity();
  return bytes;
}

std::int32_t ImageFileSet::label(std::size_t index) const {
  return target() == Target::mask ? 0 : files_[index].label;
}

void ImageFileSet::read_image(std::size_t index, std::span<std::uint8_t> pixels,
                              std::span<std::uint8_t> mask) const {
  DDPRUN_ASSERT(index < files_.size(), "sample out of range");
  const ImageFile& file = files_[index];
  try {
    read_image_file(file, settings_, pixels, mask);
  } catch (const DataError& error) {
    throw DataError(fmt::format(
        "{}; it could be read when training began{}: put the file back, or begin a new run",
        error.what(),
        settings_.skip_bad ? ", and --skip-bad leaves out files only at the start" : ""));
  }
  if (sample_hash(pixels, mask) != hashes_[index]) {
    throw DataError(fmt::format(
        "{}{}: not what it was when training began: the files of a run must stay as they are; "
        "start it again",
        file.image, file.mask.empty() ? "" : " or " + file.mask));
  }
}

}  // namespace ddprun::trainer
