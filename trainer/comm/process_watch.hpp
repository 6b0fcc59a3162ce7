// Whether another process of this host still runs, told apart from a later one that was given the
// same number.
#pragma once

#include <sys/types.h>

#include <cstdint>
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
