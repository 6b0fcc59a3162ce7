// Image files of a folder, and how one of them becomes a sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace ddprun::trainer
