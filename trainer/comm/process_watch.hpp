// Whether another process of this host still runs, told apart from a later one that was given the
// same number.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

/// What names a process for as long as the machine is up.
struct ProcessIdentity {
  std::string boot_id;        ///< of the kernel
  std::string pid_namespace;  ///< in which `pid` counts
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< in clock ticks since boot
};

ProcessIdentity own_identity();

/// State and start time of a process, from the text of /proc/PID/stat; nothing when it is not such
/// a text. Pure.
struct ProcessStat {
  char state = '?';
  std::uint64_t start_time = 0;
};
std::optional<ProcessStat> parse_process_stat(const std::string& text);

/// Watches one process through its pidfd; where the kernel has none, through /proc.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  explicit ProcessWatch(const ProcessIdentity& identity);

  /// False once the process has ended, also while it waits to be reaped. A stopped process is
  /// alive.
  [[nodiscard]] bool alive() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  std::uint64_t start_time_ = 0;
  bool gone_ = false;
  UniqueFd pidfd_;
};

}  // namespace ddprun::trainer
