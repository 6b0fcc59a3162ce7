// A folder of IDX files as a pair of sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainer/data/resized_set.hpp"

namespace ddprun::trainer {

/// Throws DataError that names the file, also where the sets do not belong together. `head` as of
/// agree_on_classes(). Masks of one value are refused.
TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const ImageFit& fit);

/// Bytes that load_idx() comes to hold: resized images by the numbers in the headers, else
/// those of the files that are not compressed.
std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const ImageFit& fit);

}  // namespace ddprun::trainer
