// Reads the small files of /proc and /sys, whatever stands at their place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// More than any file of /proc or /sys that we read is long.
inline constexpr std::size_t kSmallFileBytesMax = 4 * 1024 * 1024;

/// The first kSmallFileBytesMax bytes. None: it is not there or can't be read. Never waits for a
/// writer.
std::optional<std::string> read_small_file(const std::string& path);

/// The number behind `name` and one or more blanks or tabs, in a text of such lines; what follows
/// the number does not count. For /proc/meminfo and status the name has its colon. None: no such
/// line, or no number in it. Pure.
std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view name);

}  // namespace ddprun
