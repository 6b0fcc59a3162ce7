// What the warden (the first process) and the agent (its child) say to each other.
//
//   warden -> agent: a pipe of SignalRecords: what the user or the scheduler sent to the job
//   agent -> warden: real-time signals with a number, because the warden sleeps in sigtimedwait and
//   has no other ear
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>

#include "proto/unique_handle.hpp"

namespace ddprun::agent {

/// One signal that reached the job. Written whole (far below PIPE_BUF).
struct SignalRecord {
  std::int32_t signal = 0;
  std::int32_t sender = 0;  ///< pid; 0: the kernel, for the terminal
  std::int64_t monotonic_ns = 0;
};

/// The workers are stopped (Ctrl-Z): the warden stops itself.
inline int workers_paused_signal() { return SIGRTMIN + 1; }
/// The job will be over within `si_int` milliseconds; the warden ends it otherwise.
inline int ends_within_signal() { return SIGRTMIN + 2; }
/// The agent gets this when the warden dies. Caught, never SIGKILL: the agent has children of its
/// own to kill first.
inline int warden_died_signal() { return SIGRTMIN + 4; }

/// The agent's side.
class WardenLink {
 public:
  WardenLink(pid_t warden, UniqueFd signals) : warden_(warden), signals_(std::move(signals)) {}

  [[nodiscard]] pid_t warden() const { return warden_; }
  /// SignalRecords arrive here.
  [[nodiscard]] UniqueFd take_signals() { return std::move(signals_); }

  void workers_paused() const { tell(workers_paused_signal(), 0); }
  void ends_within(std::chrono::milliseconds limit) const {
    tell(ends_within_signal(), static_cast<int>(limit.count()));
  }

 private:
  void tell(int signal, int value) const {
    sigval number{};
    number.sival_int = value;
    sigqueue(warden_, signal, number);
  }

  pid_t warden_;
  UniqueFd signals_;
};

}  // namespace ddprun::agent
