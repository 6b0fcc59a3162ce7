// The first process of a node on a host of --hosts, once it has started the node's own ddprun: it
// passes the launcher's signals on, and sees to it that the node ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/unique_handle.hpp"
#include "machine/processes/stop_settings.hpp"
#include "warden/supervised_child.hpp"

namespace ddprun::launcher {

/// No line from the launcher is longer.
inline constexpr std::size_t kInputLineBytesMax = 256;

class NodeInput {
 public:
  /// Waits until there are bytes, or the input has ended, or the deadline has passed; false: there
  /// will be no more, or none in time.
  bool read_more(std::optional<std::chrono::steady_clock::time_point> deadline);
  /// None: there is no whole one yet.
  std::optional<std::string> take_line();
  std::string take(std::size_t bytes);
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

/// Between its socket's name and its first connection sshd has less than this: a younger one may
/// belong to a job that is just being started.
inline constexpr std::chrono::seconds kStrayAge{60};

/// Removes from `folder` each socket with a name that begins with kSocketPrefix, that is
/// our user's and older than kStrayAge, and at which nobody listens. Those of other running jobs
/// are asked for a connection, which ends at once. What cannot be read or removed stays.
void remove_stray_sockets(const std::string& folder);

/// It is to the node's warden what that is to its agent, but knows nothing of the job: it neither
/// starts nor watches workers.
class NodeGuard {
 public:
  /// `node` is a child of this process; `signals` a signalfd of SIGCHLD and of what ends the job.
  NodeGuard(pid_t node, NodeInput input, std::string socket, UniqueFd signals,
            machine::StopSettings stop);

  /// Ends this process when nothing of the node is left, with the node's exit code. The end of
  /// stdin ends the node. One that has not ended in time, or was stopped and not continued, is
  /// killed with all that is below it.
  [[noreturn]] void run();

 private:
  using Clock = warden::SupervisedChild::Clock;

  void wait();
  void take_input();
  void take_lines();
  void pass_on(int signal);
  void end_input();
  void look_at_node();
  void look_at_deadline();
  [[noreturn]] void finish(int code);

  warden::SupervisedChild node_;
  NodeInput input_;
  const std::string socket_;
  const machine::StopSettings stop_;
  bool input_has_ended_ = false;
};

}  // namespace ddprun::launcher
