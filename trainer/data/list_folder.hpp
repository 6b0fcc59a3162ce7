// What is in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::trainer {

struct FolderEntry {
  std::string name;
  bool is_folder = false;  ///< also of a link to one
};

/// Sorted by name. Throws DataError that names the folder where it cannot be listed.
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder);

}  // namespace ddprun::trainer
