#include "agent/evidence/file_clock.hpp"

#include <fcntl.h>

#include <algorithm>

namespace ddprun::agent {
namespace {

WallTime wall_time(const timespec& time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

}  // namespace

WallTime by_wall_clock(WallTime written, WallTime file_now, WallTime asked, WallTime answered) {
  // A machine that is busy, or a server that is far away, takes a while to answer.
  const WallTime::duration ahead =
      file_now - std::clamp(file_now, asked, std::max(asked, answered));
  return std::chrono::abs(ahead) <= kFileClock ? written : written - ahead;
}

WallTime last_written(int fd, const struct stat& status) {
  const WallTime written = wall_time(status.st_mtim);
  const timespec access_alone[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  struct stat touched {};
  const WallTime asked = std::chrono::system_clock::now();
  if (futimens(fd, access_alone) != 0 || fstat(fd, &touched) != 0) return written;
  return by_wall_clock(written, wall_time(touched.st_atim), asked,
                       std::chrono::system_clock::now());
}

}  // namespace ddprun::agent
