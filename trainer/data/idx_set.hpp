// A folder of IDX files as a pair of sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// Throws DataError that names the file, also where the sets do not belong together. `head`:
/// outputs of the classifier if they are given. Labels are below it, in both sets; else those of
/// the held-out set are in the range of the training set's, which has two classes or more. A label
/// beyond is refused with its file and sample. `shape`: that the images are resized to.
TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const std::optional<ImageShape>& shape);

/// Bytes that load_idx() comes to hold: with a `shape` by the numbers of images in the headers,
/// else those of the files that are not compressed.
std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const std::optional<ImageShape>& shape);

}  // namespace ddprun::trainer
