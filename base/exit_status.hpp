// How a process ended, and what it used.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun {

/// As the kernel reported it.
struct ExitStatus {
  bool by_signal = false;
  int value = 0;  ///< exit code, or signal number
  bool core_dumped = false;

  bool success() const { return !by_signal && value == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// What a process and the children that it has waited for have used.
struct ResourceUse {
  std::uint64_t peak_memory_bytes = 0;  ///< of the largest of them
  std::chrono::nanoseconds cpu_time{0};
};

}  // namespace ddprun
