#include "trainer/data/list_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "trainer/error.hpp"

namespace ddprun::trainer {

std::vector<FolderEntry> list_folder(const std::filesystem::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;
    entries.push_back(
        {.name = it->path().filename().string(), .is_folder = it->is_directory(ignored)});
  }
  if (failed) throw DataError(fmt::format("{}: {}", folder.string(), failed.message()));
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace ddprun::trainer
