// A file to which whole pieces are appended: lines of metrics, records of TensorBoard.
#pragma once

#include <filesystem>
#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

class AppendedFile {
 public:
  /// Makes the file and its folder where they are missing. Throws std::system_error with the path.
  explicit AppendedFile(const std::filesystem::path& path);

  /// In one write, so that a reader never finds part of a piece, also after a kill. Throws
  /// std::system_error with the path where the piece does not fit; then no part of it stays.
  void append(const std::string& piece);

 private:
  std::string path_;
  UniqueFd fd_;
};

/// Whether a file of lines ends within a line, as after a crash of the machine. No file, and what
/// is not a regular one, does not.
bool ends_within_line(const std::filesystem::path& path);

}  // namespace ddprun::trainer
