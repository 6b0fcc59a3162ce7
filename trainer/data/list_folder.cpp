#include "trainer/data/list_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/lower_case.hpp"
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

std::string held_out_by_other_name(const std::filesystem::path& folder, const std::string& ending) {
  constexpr std::array kNames{"val",  "valid",      "validation", "dev",      "test",
                              "eval", "evaluation", "testing",    "held-out", "holdout"};
  for (const FolderEntry& entry : list_folder(folder)) {
    const std::string typed = entry.name + (entry.is_folder ? "/" : "");
    const std::string name = lower_case(typed);
    const auto is_name = [&](const char* known) { return name == known + ending; };
    if (std::any_of(kNames.begin(), kNames.end(), is_name)) return typed;
  }
  return "";
}

}  // namespace ddprun::trainer
