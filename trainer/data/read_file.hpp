// Files and folders of data: all bytes of a file, numbers in its header, what is in a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
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

/// The number in the first four bytes, the most significant one first. Requires that many.
inline std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

struct FolderEntry {
  std::string name;
  bool is_folder = false;  ///< also of a link to one
};

/// Sorted by name. Throws DataError that names the folder where it cannot be listed.
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder);

/// The held-out part of a set in `folder`, where it has another name than it should, such as
/// "valid" + `ending` ("/" of folders, ".tsv"); empty: none is found.
std::string held_out_by_other_name(const std::filesystem::path& folder, const std::string& ending);

}  // namespace ddprun::trainer
