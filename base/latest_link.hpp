// The name `latest` beside folders of runs, which leads to the newest one.
#pragma once

#include <unistd.h>

#include <filesystem>

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

}  // namespace ddprun
