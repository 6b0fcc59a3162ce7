// ddprun as one node of a job that its launcher started here through ssh: the first process. It
// reads the plan, starts the node's own ddprun as its child, passes signals on to it, and ends it
// when stdin ends.
#pragma once

#include <optional>
#include <string>

#include "launcher/options/options.hpp"
#include "launcher/ssh/node_messages.hpp"

namespace ddprun::launcher {

/// `socket` is the path of the one that ssh forwards; it is removed at the end.
/// Greets the launcher, reads the plan and forks. Returns in the child, which is in the plan's
/// folder with the plan's environment and /dev/null as stdin; it gets SIGTERM if this first process
/// ends. The first process never returns: it ends when nothing of the node is left, with the
/// child's exit code. In the child: why it cannot go on, as an error. To be called before anything
/// else has been started.
LaunchResult<NodePlan> become_node(const std::string& socket);

/// By which other hosts reach this one: the address at which ssh reached it. Where that is a
/// loopback address, the one from which this host reaches others. `ssh_connection` is the variable
/// SSH_CONNECTION.
std::string address_of_node(const std::optional<std::string>& ssh_connection);

/// The record of the job's end, for the launcher.
void send_end(const NodeEnd& end, const std::string& mark);

}  // namespace ddprun::launcher
