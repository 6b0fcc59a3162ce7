// Lists of image files become a pair of sets: in memory where they fit, else decoded whenever they
// are read.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "trainer/data/image_scan.hpp"
#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

struct ImageLists {
  std::vector<ImageFile> train, test;
  int classes = 1;  ///< 1 of masks
};

/// Reads all files once, and keeps the samples in memory where both sets fit settings.memory. Both
/// are normalised by the training images. `check` may refuse what was read: the training images,
/// before the others are read, and these. TrainAndTest::warning has the files that were left out.
/// Throws DataError as scan_image_files() does, and where no held-out image is left.
TrainAndTest read_image_lists(const std::filesystem::path& folder, ImageLists lists,
                              const ImageSettings& settings,
                              const std::function<void(SetPart, const ScannedImages&)>& check);

/// Bytes that the sets come to hold.
std::uint64_t known_bytes(const ImageLists& lists, const ImageSettings& settings);

}  // namespace ddprun::trainer
