// All images of a list of files, read once in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/image_files.hpp"

namespace ddprun::trainer {

/// Files that were left out (--skip-bad).
struct SkippedFiles {
  static constexpr std::size_t kReasonsMost = 3;
  std::size_t count = 0;
  std::vector<std::string> reasons;  ///< of the first kReasonsMost, each with the file's name
  SkippedFiles& operator+=(const SkippedFiles& more);
};

struct ScannedImages {
  std::vector<ImageFile> files;  ///< that could be used
  ByteImages images;             ///< of these; without samples where they are not kept
  SkippedFiles skipped;
  std::uint64_t decode_bytes = 0;  ///< the most that read_image_file() held of one of all files
  // Of images that are not kept.
  std::vector<std::uint64_t> hashes;  ///< sample_hash() of each
  std::uint64_t content_hash = 0;     ///< as ByteImageSet::content_hash()
  ChannelSums sums;
  // Of masks.
  std::uint64_t mask_pixels = 0;
  std::uint64_t marked_pixels = 0;
};

/// Decodes all files by settings.threads threads. Throws DataError that names the first file of the
/// list that cannot be used; with settings.skip_bad such files are left out. Holds the samples if
/// `keeps`, else a few at a time.
ScannedImages scan_image_files(std::vector<ImageFile> files, const ImageSettings& settings,
                               bool keeps);

/// Of one sample's pixels and mask.
std::uint64_t sample_hash(std::span<const std::uint8_t> pixels, std::span<const std::uint8_t> mask);

}  // namespace ddprun::trainer
