// Folders of image files as a pair of sets: in memory where they fit, else decoded whenever they
// are read. Either a folder for each class, train/CLASS/*.jpg and val/CLASS/*.jpg or
// test/CLASS/*.jpg, or images and their masks: train/images and train/masks with val/ or test/, or
// images and masks of which a share is held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "trainer/data/image_files.hpp"
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

/// The label of a class is its place among the sorted names of the folders in train/. The held-out
/// set is val/ if it is there, else test/. Throws DataError that names the folder or the file: a
/// class without images that can be used, or in the held-out set alone.
TrainAndTest load_class_folders(const std::filesystem::path& folder, const ImageSettings& settings);

/// Throws DataError that names the folder: fewer than two classes, or more than kImageClassesMax.
void check_class_count(const std::filesystem::path& folder, std::size_t count);

/// Bytes that they are going to take.
std::uint64_t known_class_folder_bytes(const std::filesystem::path& folder,
                                       const ImageSettings& settings);

/// val/ if it is there, else test/. Throws DataError where neither is.
std::filesystem::path held_out_folder(const std::filesystem::path& folder);

/// An image and its mask have the same name but for its end. Without train/, settings.holdout is
/// needed: of n pairs in the order of their names n x holdout, rounded down, are held out, those at
/// the end of the permutation that torch.randperm gives for settings.seed, as torch's random_split
/// does. Throws DataError that names the folder or the file.
TrainAndTest load_mask_folders(const std::filesystem::path& folder, const ImageSettings& settings);

/// Bytes that they are going to take.
std::uint64_t known_mask_folder_bytes(const std::filesystem::path& folder,
                                      const ImageSettings& settings);

}  // namespace ddprun::trainer
