// The signals of this process, as it was started with them.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>

namespace ddprun {

/// As under nohup.
inline bool signal_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// When one came: the same clock in every process.
inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace ddprun
