// Reads the small files of /proc and /sys, whatever stands at their place.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// More than any file of /proc or /sys that we read is long.
inline constexpr std::size_t kSmallFileBytesMax = 4 * 1024 * 1024;

/// The first kSmallFileBytesMax bytes. None: it is not there or can't be read. Never waits for a
/// writer.
std::optional<std::string> read_small_file(const std::string& path);

}  // namespace ddprun
