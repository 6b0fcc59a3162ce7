// A child that must end in time, and the one wait of the process that sees to it: of the warden for
// its agent, and of the first process on a host for the node.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/exit_status.hpp"
#include "base/unique_handle.hpp"
#include "warden/agent_deadline.hpp"

namespace ddprun::warden {

class SupervisedChild {
 public:
  using Clock = AgentDeadline::Clock;
  using Time = std::optional<Clock::time_point>;

  /// `signals`: a signalfd that does not block, of SIGCHLD and others. `limit`: AgentDeadline's.
  SupervisedChild(pid_t pid, UniqueFd signals, Clock::duration limit)
      : deadline(limit), pid_(pid), signals_(std::move(signals)) {}

  /// Sleeps until a signal has come, one of `others` is ready, or the deadline or one of `times`
  /// has come. False: the kernel refuses to wait.
  bool wait(std::span<pollfd> others, std::initializer_list<Time> times = {}) const;

  /// Those that came, but for SIGCHLD; SIGTERM first.
  [[nodiscard]] std::vector<int> take_signals() const;

  /// Tells the deadline whether the child was stopped or continued. True: it was.
  bool look_at_state();

  /// Takes its exit. None: it runs.
  [[nodiscard]] std::optional<ExitStatus> take_exit() const;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }

  AgentDeadline deadline;

 private:
  pid_t pid_;
  UniqueFd signals_;
  bool is_stopped_ = false;
};

}  // namespace ddprun::warden
