// All bytes of a file of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace ddprun::trainer {

/// More than this, decompressed, is refused.
inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{4} << 30;

/// Decompresses `file` if it is gzipped. Throws DataError: not readable, damaged, cut short, over
/// kFileBytesMax.
std::vector<std::uint8_t> read_file_or_gzip(const std::filesystem::path& file);

}  // namespace ddprun::trainer
