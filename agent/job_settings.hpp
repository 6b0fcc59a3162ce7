// What the user chose about hangs, about commands beside the workers and about the store. Plain
// data, as typed and as the agent takes it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::agent {

/// What follows when no worker prints anything for the log time-out.
enum class OnSilence { report, restart };

/// Which silence of a worker counts.
struct WatchSettings {
  std::chrono::milliseconds progress_timeout{0};  ///< without progress: a hang; 0: none is
  std::chrono::milliseconds log_timeout{0};       ///< without output: worth a line; 0: none is
  OnSilence on_silence = OnSilence::report;
  std::chrono::milliseconds kernel_timeout{0};  ///< in one uninterruptible wait: a hang; 0: none is
};

/// Commands, as a shell takes them, that run beside the workers. Empty: there is none.
struct CommandSettings {
  std::string on_event;   ///< for each event, which it has on its stdin
  std::string on_notice;  ///< ends with 0 when the workers are to save
};

/// Which other users of this machine may use the store; our own and root always may.
struct StoreUsers {
  bool any = false;
  std::vector<unsigned> uids;
};

}  // namespace ddprun::agent
