// A text that a user chose, such as a run id, as the name of a file or folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kFileNameBytesMax = 100;  ///< file names end at 255

/// The first kFileNameBytesMax bytes of `text`, no UTF-8 character cut in two, with `_` for each
/// slash and control character, and `_` before a dot at the begin. Two texts may give one name.
std::string file_name_of(std::string_view text);

}  // namespace ddprun
