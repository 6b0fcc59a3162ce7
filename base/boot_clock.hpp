// A monotonic clock that goes on while the machine is suspended.
#pragma once

#include <ctime>

#include <chrono>

namespace ddprun {

/// Now, by CLOCK_BOOTTIME. Its points compare with one another only, not with those of
/// std::chrono::steady_clock::now().
inline std::chrono::steady_clock::time_point boot_clock_now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(time.tv_sec) +
                                               std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace ddprun
