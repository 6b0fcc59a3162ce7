// All bytes of a file of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// More than this, decompressed, is refused where nothing else is asked for.
inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{4} << 30;

/// Decompresses `file` if it is gzipped. Throws DataError: not readable, no regular file (a pipe
/// would be waited for), damaged, cut short, over `bytes_max`.
std::vector<std::uint8_t> read_file_or_gzip(const std::string& file,
                                            std::uint64_t bytes_max = kFileBytesMax);

/// Its first bytes, decompressed: up to `count`, fewer of a file that cannot be read.
std::vector<std::uint8_t> read_start(const std::filesystem::path& file, std::size_t count);

}  // namespace ddprun::trainer
