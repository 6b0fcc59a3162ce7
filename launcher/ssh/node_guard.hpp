// The first process of a node on a host of --hosts, once it has started the node's own ddprun: it
// passes the launcher's signals on, and sees to it that the node ends.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_handle.hpp"
#include "launcher/ssh/node_input.hpp"
#include "machine/processes/stop_settings.hpp"
#include "warden/supervised_child.hpp"

namespace ddprun::launcher {

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
