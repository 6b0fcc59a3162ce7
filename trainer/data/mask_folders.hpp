// Images and their masks in folders: train/images and train/masks with val/ or test/, or images and
// masks of which a share is held out.
#pragma once

#include <cstdint>
#include <filesystem>

#include "trainer/data/image_files.hpp"
#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// An image and its mask have the same name but for its end. Without train/, settings.holdout is
/// needed: of n pairs in the order of their names n x holdout, rounded down, are held out, those at
/// the end of the permutation that torch.randperm gives for settings.seed, as torch's random_split
/// does. Throws DataError that names the folder or the file.
TrainAndTest load_mask_folders(const std::filesystem::path& folder, const ImageSettings& settings);

/// Bytes that they are going to take.
std::uint64_t known_mask_folder_bytes(const std::filesystem::path& folder,
                                      const ImageSettings& settings);

}  // namespace ddprun::trainer
