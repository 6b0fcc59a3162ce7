// What the floor and the worker of bench_logs write with.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace ddprun::bench {

/// Waits for room; false: the reader is gone.
inline bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace ddprun::bench
