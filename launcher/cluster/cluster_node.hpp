// What a cluster's scheduler says about this node, by the variables that it gives to the processes
// it starts. Pure; nothing of it is asked of the scheduler itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

template <class T>
struct FromVariable {
  T value{};
  std::string variable;  ///< where it comes from
};

struct ClusterNode {
  std::string scheduler;  ///< for people: "Slurm"; empty: none has started this process
  std::optional<FromVariable<int>> nodes;
  std::optional<FromVariable<int>> node_rank;
  std::optional<FromVariable<std::string>> first_host;  ///< where the nodes can meet
  bool rank0_is_first_host = false;
  /// The port of the service at `first_host`, which has rank 0 then, as in torchrun's static
  /// rendezvous.
  std::optional<FromVariable<std::uint16_t>> master_port;
  std::optional<FromVariable<std::string>> run_id;
  std::optional<FromVariable<int>> workers;
  /// It kills processes this long after SIGTERM, unless it is configured otherwise.
  std::optional<int> kill_wait_seconds;
  std::string endpoint_advice;  ///< what to type where `first_host` is needed and not known
  std::string hint;             ///< for people, if no option says how many nodes there are
};

/// The first scheduler that has started this process. Errors, in one line with what to type: it has
/// started several processes on this node, or its variables contradict each other.
LaunchResult<ClusterNode> cluster_node(const Environment& environment);

/// How the processes are called by which the schedulers of these variables start programs on a node
/// and end them: one of them is an ancestor of ours. Without it nobody ends us. Empty: no scheduler
/// has started this process, or it is a worker's.
std::vector<std::string> scheduler_processes(const Environment& environment);

}  // namespace ddprun::launcher
