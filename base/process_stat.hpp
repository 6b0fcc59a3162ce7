// What the kernel tells about a process in one line, /proc/PID/task/PID/stat.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

struct ProcessStat {
  pid_t pid = -1;
  std::string name;  ///< comm, at most 15 bytes
  char state = '?';  ///< R, S, D, T, Z, ...
  pid_t parent = -1;
  unsigned flags = 0;            ///< the kernel's PF_...
  int threads = 1;               ///< 0 or 1 of a zombie, unless only its first thread has ended
  std::uint64_t start_time = 0;  ///< in clock ticks since boot
};

/// None: it is not such a line. Pure.
std::optional<ProcessStat> parse_process_stat(const std::string& line);

/// None: there is no such process (any more), or no /proc.
std::optional<ProcessStat> read_process_stat(pid_t pid);

}  // namespace ddprun
