// A folder for each class: train/CLASS/*.jpg and val/CLASS/*.jpg or test/CLASS/*.jpg.
#pragma once

#include <cstdint>
#include <filesystem>

#include "trainer/data/image_files.hpp"
#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

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

}  // namespace ddprun::trainer
