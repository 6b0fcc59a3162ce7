// Reader of IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.
//
//   file   := zero zero type rank dimension{rank} element{product of dimensions}
//   zero   := 00            type := 08 (unsigned byte; the only one read)
//   rank   := one byte      dimension := 4 bytes, big-endian
//
// Images have 3 dimensions (count, rows, columns) or 4 (count, rows, columns, channels); labels
// have 1, masks have 3. A folder of such files is a pair of sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/resize.hpp"

namespace ddprun::trainer {

/// Rows or columns of one image.
inline constexpr std::uint32_t kIdxSideMax = 4096;
inline constexpr std::uint32_t kIdxCountMax = 100'000'000;

/// What an IDX header says; elements start at `payload_offset`.
struct IdxHeader {
  std::vector<std::uint32_t> dimensions;
  std::size_t payload_offset = 0;
};

/// Reads and checks the header at the start of `bytes`, and that exactly its elements follow.
/// Throws DataError that names `file` and the offset (of the decompressed bytes). Pure.
IdxHeader parse_idx(std::span<const std::uint8_t> bytes, const std::string& file);

/// Images and their targets, one pair of files. Throws DataError; also where their counts or sides
/// differ. `classes` is one more than the greatest label, or 1 of masks.
ByteImages read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& targets,
                         Target target);

/// The four files of a folder, found under MNIST's names (train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; `.` for the last `-idx`
/// also; each plain or .gz). Masks are in train-masks-idx3-ubyte and t10k-masks-idx3-ubyte.
struct IdxFolder {
  std::filesystem::path train_images, train_targets, test_images, test_targets;
};

/// Throws DataError that names the folder and the missing file.
IdxFolder find_idx_folder(const std::filesystem::path& folder, Target target);

/// Throws DataError that names the file, also where the sets do not belong together. `head` as of
/// agree_on_classes(). Masks of one value are refused.
TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const ImageFit& fit);

/// Bytes that load_idx() comes to hold: resized images by the numbers in the headers, else
/// those of the files that are not compressed.
std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const ImageFit& fit);

}  // namespace ddprun::trainer
