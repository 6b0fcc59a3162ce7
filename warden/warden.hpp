// The first process: starts the agent as its child, passes the job's signals on, and outlives it to
// clean up. No threads, no Asio; it sleeps in poll. It keeps the name `ddprun`, and the agent has
// another one, so that a kill by name leaves one of the two.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "machine/processes/containment_level.hpp"
#include "machine/processes/stop_settings.hpp"
#include "warden/warden_link.hpp"

namespace ddprun::warden {

struct WardenSettings {
  machine::ContainmentLevel containment = machine::ContainmentLevel::tree;
  bool cgroup_optional = false;  ///< level cgroup: where none can be made, tree will do
  machine::StopSettings stop;
  bool reads_input = true;  ///< a worker gets our standard input
  bool has_lease = false;   ///< of several nodes: workers may run as long as the agent's lease says
  std::string run_directory;   ///< removed at the end; empty: there is none
  std::span<char> title_room;  ///< for the agent's title, see own_process.hpp
  /// Work for a process of its own beside the start of the workers, cut short where the job ends
  /// first, and whether there is any. Both may be empty.
  std::function<bool()> has_work_beside;
  std::function<void()> work_beside;
};

/// Forks the agent, in which `agent_main` runs and gives the exit code, and stays as its warden
/// until nothing of the job is left. Returns the job's exit code. Called once, with no other
/// thread. `agent_main` runs with all signals blocked and a parent-death signal set.
int run_warden(const WardenSettings& settings, const std::function<void(WardenLink)>& agent_main);

}  // namespace ddprun::warden
