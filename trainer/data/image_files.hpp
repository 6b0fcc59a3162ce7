// Image files of a folder, decoded by several threads. The order of the samples is that of the
// list, whatever the threads do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {

inline constexpr int kMaskThreshold = 128;

/// How images of files become samples.
struct ImageSettings {
  ImageShape shape{.height = 28, .width = 28, .channels = 1};  ///< that all are resized to
  int threads = 1;                                             ///< that decode
  std::optional<int> mask_threshold = std::nullopt;  ///< mask pixels from it on; kMaskThreshold
  std::optional<double> holdout = std::nullopt;      ///< share of the images that is held out
  std::uint64_t seed = 0;                            ///< of the choice of those
};

struct ImageFile {
  std::filesystem::path image;
  std::filesystem::path mask = {};  ///< empty: it has none
};

/// Names that end with .jpg, .jpeg or .png, in any case, and do not begin with a dot; sorted.
/// Throws DataError where the folder cannot be listed.
std::vector<std::string> image_names(const std::filesystem::path& folder);

/// Decodes all, resizes images bilinearly and masks to the nearest pixel, and makes masks 0 or 255.
/// Leaves out the labels. Throws DataError that names the first file of the list that cannot be
/// used; also where a mask has other sides than its image.
ByteImages read_image_files(const std::vector<ImageFile>& files, const ImageSettings& settings);

}  // namespace ddprun::trainer
