// Image files of a folder: how one of them becomes a sample, a list of them read once in its order,
// and a set of them that is too large for memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

inline constexpr int kMaskThreshold = 128;

/// How images of files become samples.
struct ImageSettings {
  ImageShape shape{.height = 28, .width = 28, .channels = 1};  ///< that all are resized to
  int threads = 1;                                             ///< that decode
  std::optional<int> mask_threshold = std::nullopt;  ///< mask pixels from it on; kMaskThreshold
  std::optional<double> holdout = std::nullopt;      ///< share of the images that is held out
  std::uint64_t seed = 0;                            ///< of the choice of those
  bool skip_bad = false;                             ///< leave out what cannot be used
  /// Sets that take more bytes are decoded whenever they are read.
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
};

struct ImageFile {
  std::string image;      ///< its path; a std::filesystem::path takes several times the bytes
  std::string mask = {};  ///< empty: it has none
  ImageLabel label = 0;   ///< of a file without mask
};

/// Names that end with .jpg, .jpeg or .png, in any case, and do not begin with a dot; sorted.
/// Throws DataError where the folder cannot be listed.
std::vector<std::string> image_names(const std::filesystem::path& folder);

/// Decodes one: resizes the image bilinearly and its mask to the nearest pixel, and makes mask
/// pixels 0 or 255. `pixels` and `mask` have exactly the bytes of settings.shape; without a mask
/// that is empty. Gives the most bytes that it held at one time beside these. Throws DataError that
/// names the file: it cannot be used, or a mask has other sides than its image.
std::uint64_t read_image_file(const ImageFile& file, const ImageSettings& settings,
                              std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask);

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
  // Known where images are not kept.
  std::vector<std::uint64_t> hashes;  ///< sample_hash() of each
  std::uint64_t content_hash = 0;     ///< as ByteImageSet::content_hash()
  ChannelSums sums;
  // Pixels of all masks.
  std::uint64_t mask_pixels = 0;
  std::uint64_t marked_pixels = 0;
};

/// Decodes all files by settings.threads threads. Throws DataError that names the first file of the
/// list that cannot be used; with settings.skip_bad such files are left out. Holds the samples if
/// `keeps`, else a few at a time.
ScannedImages scan_image_files(std::vector<ImageFile> files, const ImageSettings& settings,
                               bool keeps);

/// Hash of one sample's pixels and mask.
std::uint64_t sample_hash(std::span<const std::uint8_t> pixels, std::span<const std::uint8_t> mask);

/// The memory that it takes is that of names, hashes and labels.
class ImageFileSet final : public ImageSet {
 public:
  /// `scanned` without samples, of images or of images with masks. Labels are below `classes`.
  ImageFileSet(std::string name, ScannedImages scanned, int classes, ImageSettings settings,
               Normalization normalization);

  [[nodiscard]] std::int32_t label(std::size_t index) const override;
  /// Throws DataError that names the file where it is gone, or no longer what it was when the set
  /// was made.
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override;

  /// Memory for a list that is not read yet.
  static std::uint64_t bytes_of(const std::vector<ImageFile>& files);

 private:
  std::vector<ImageFile> files_;
  std::vector<std::uint64_t> hashes_;
  ImageSettings settings_;
};

}  // namespace ddprun::trainer
