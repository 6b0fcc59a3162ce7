// What a benchmark of a server asks of the machine: descriptors, and a CPU of the server's own.
#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace ddprun::bench {

/// As far as the hard limit allows; descriptors that this process, and so a server that it starts,
/// may have.
inline std::uint32_t raise_open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::uint32_t>(std::min<rlim_t>(limit.rlim_cur, 1'000'000));
}

struct CpuShare {
  int server = -1;  ///< to which a server is to be pinned; -1: not at all
  int count = 1;    ///< CPUs that we may use, the server's included
};

/// The server gets the first CPU that we may use. This thread is moved to the others, or with
/// `same` to that one too.
inline CpuShare share_out_cpus(bool same) {
  CpuShare share;
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return share;
  share.count = CPU_COUNT(&usable);
  std::size_t first = 0;
  while (first < CPU_SETSIZE && !CPU_ISSET(first, &usable)) ++first;
  if (same) {
    CPU_ZERO(&usable);
    CPU_SET(first, &usable);
  } else if (share.count < 2) {
    return share;
  } else {
    CPU_CLR(first, &usable);
  }
  sched_setaffinity(0, sizeof usable, &usable);
  share.server = static_cast<int>(first);
  return share;
}

}  // namespace ddprun::bench
