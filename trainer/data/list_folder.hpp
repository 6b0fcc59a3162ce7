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

/// The held-out part of a set in `folder`, where it has another name than it should, such as
/// "valid" + `ending` ("/" of folders, ".tsv"); empty: none is found.
std::string held_out_by_other_name(const std::filesystem::path& folder, const std::string& ending);

}  // namespace ddprun::trainer
