// Names in folders of runs: a text that a user chose as the name of a file, and the link to the
// newest folder.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr const char* kLatestName = "latest";
inline constexpr const char* kLatestTextName = "latest.txt";  ///< where there are no links

/// symlink(2), but in tests.
using CreateLink = int (*)(const char* target, const char* link);

/// Makes BASE/latest a link to `folder`, which lies in `base`, at once; a name that is no link is
/// left alone, and so is a `folder` of this very name. Where the file system has no links,
/// BASE/latest.txt holds the folder's name. It is only a help for people: what fails is not
/// reported.
void lead_latest_to(const std::filesystem::path& base, const std::filesystem::path& folder,
                    CreateLink create = ::symlink);

inline constexpr std::size_t kFileNameBytesMax = 100;  ///< file names end at 255

/// The first kFileNameBytesMax bytes of `text`, no UTF-8 character cut in two, with `_` for each
/// slash and control character, and `_` before a dot at the begin. Two texts may give one name.
std::string file_name_of(std::string_view text);

}  // namespace ddprun
