// A folder of IDX files as a pair of sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// Throws DataError that names the file, also where the sets do not belong together. `head` as of
/// agree_on_classes(). `shape`: that the images are resized to.
TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const std::optional<ImageShape>& shape);

/// Bytes that load_idx() comes to hold: with a `shape` by the numbers of images in the headers,
/// else those of the files that are not compressed.
std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const std::optional<ImageShape>& shape);

}  // namespace ddprun::trainer
