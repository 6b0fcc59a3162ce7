// A safetensors file on disk of which only the header and some tensors are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/unique_handle.hpp"
#include "trainer/checkpoint/safetensors.hpp"

namespace ddprun::trainer {

/// Holds the file open. All calls throw DataError that names the file.
class SafetensorsFile {
 public:
  /// Reads the header: not readable, no regular file, or not whole.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const SafetensorsTable& table() const { return table_; }

  /// The bytes of a row of table(); `out` has exactly as many. A file that has become shorter is
  /// refused.
  void read(const TensorEntry& tensor, std::span<std::byte> out) const;

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  UniqueFd fd_;
  SafetensorsTable table_;
};

}  // namespace ddprun::trainer
