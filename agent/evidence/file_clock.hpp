// When a file was written, by this machine's wall clock. A file server has a clock of its own,
// which may be far from this one.
#pragma once

#include <sys/stat.h>

#include <chrono>

namespace ddprun::agent {

using WallTime = std::chrono::system_clock::time_point;

/// The kernel stamps files by a clock that is up to a tick behind.
inline constexpr std::chrono::milliseconds kFileClock{20};

/// `written` is a stamp of a file, and `file_now` what its file system stamped between `asked` and
/// `answered`. Clocks that differ by no more than kFileClock count as one. Pure.
WallTime by_wall_clock(WallTime written, WallTime file_now, WallTime asked, WallTime answered);

/// When the file was last written, of which `status` was read. To learn the clock of its file
/// system this sets the file's time of access. If that is refused, the two clocks count as one.
WallTime last_written(int fd, const struct stat& status);

}  // namespace ddprun::agent
