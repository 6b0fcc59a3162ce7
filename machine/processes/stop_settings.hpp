// How the job's processes are stopped: by which signals, and how long each step may take. Plain
// data, shared by the warden and the agent.
#pragma once

#include <chrono>
#include <vector>

namespace ddprun::machine {

struct StopSettings {
  std::chrono::milliseconds grace_period{30'000};  ///< from the stop signal to SIGKILL
  std::chrono::milliseconds kill_timeout{10'000};  ///< for SIGKILL to take effect
  /// That end the job; never empty. The usual others keep their default action.
  std::vector<int> signals;
  std::vector<int> forward_signals;  ///< that only the workers get
  /// One of these that no worker gets: it asks for a checkpoint. 0: none does.
  int save_signal = 0;
};

}  // namespace ddprun::machine
