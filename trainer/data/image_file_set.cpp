#include "trainer/data/image_file_set.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/assert.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

ImageFileSet::ImageFileSet(std::string name, ScannedImages scanned, int classes,
                           ImageSettings settings, Normalization normalization)
    : name_(std::move(name)),
      files_(std::move(scanned.files)),
      hashes_(std::move(scanned.hashes)),
      target_(scanned.mask_pixels > 0 ? Target::mask : Target::label),
      classes_(classes),
      settings_(settings),
      content_hash_(scanned.content_hash),
      reading_bytes_(scanned.decode_bytes),
      mask_pixels_(scanned.marked_pixels),
      normalization_(std::move(normalization)) {
  DDPRUN_ASSERT(hashes_.size() == files_.size(), "a hash of each sample");
}

std::uint64_t ImageFileSet::bytes() const { return bytes_of(files_); }

std::uint64_t ImageFileSet::bytes_of(const std::vector<ImageFile>& files) {
  std::uint64_t bytes = 0;
  for (const ImageFile& file : files)
    bytes +=
        sizeof(ImageFile) + sizeof(std::uint64_t) + file.image.capacity() + file.mask.capacity();
  return bytes;
}

std::int32_t ImageFileSet::label(std::size_t index) const {
  return target_ == Target::mask ? 0 : files_[index].label;
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
