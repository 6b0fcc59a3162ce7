// Writing files so that after a crash they are either whole or absent: fsync, and every error
// reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/unique_handle.hpp"
#include "trainer/checkpoint/training_state.hpp"

namespace ddprun::trainer {

/// Opens a file of an output folder (open_own_file), made with the rights that the umask leaves.
/// Throws std::system_error that names the file.
UniqueFd open_in_output(const std::filesystem::path& path, int access);

/// A new file that knows length and checksum of what was written. All calls throw std::system_error
/// naming the file.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);

  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }

  /// Flushes to the disk and closes.
  FileDigest finish();

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  FileDigest digest_;
};

/// Makes renames and new names within `directory` last. Throws std::system_error.
void sync_directory(const std::filesystem::path& directory);

/// The whole of a regular file, which is no link and no larger than `bytes_max`. Throws DataError
/// naming it.
std::vector<std::byte> read_whole(const std::filesystem::path& path, std::uint64_t bytes_max);

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start = 0);

}  // namespace ddprun::trainer
