// How a process ended.
#pragma once

namespace ddprun {

/// As the kernel reported it.
struct ExitStatus {
  bool by_signal = false;
  int value = 0;  ///< exit code, or signal number
  bool core_dumped = false;

  bool success() const { return !by_signal && value == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

}  // namespace ddprun
