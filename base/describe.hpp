// Ends, signals and durations as text, the same in logs, reports and reasons.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/exit_status.hpp"

namespace ddprun {

/// "SIGKILL", "SIGRTMIN+3", "signal 99".
std::string signal_name(int signal);

/// "exited with code 3", "killed by SIGSEGV (signal 11, core dumped)".
std::string describe(const ExitStatus& exit);

/// As a number, for JSON.
inline double in_seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// "12 ms", "3.2 s", "2 min 5 s".
std::string describe(std::chrono::nanoseconds duration);

/// In UTC: "2026-01-31T12:00:00.123Z".
std::string describe(std::chrono::system_clock::time_point time);

/// "912 KiB", "12.4 GiB".
std::string describe_bytes(std::uint64_t bytes);

}  // namespace ddprun
