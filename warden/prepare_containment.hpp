// What a containment level needs before the agent is started.
#pragma once

#include <optional>

#include "machine/cgroups/job_cgroup.hpp"
#include "machine/processes/containment_level.hpp"

namespace ddprun::warden {

/// Level pidns: our children are in a pid namespace from now on. Level cgroup: makes `cgroup`; with
/// `may_go_without` it stays empty where none can be made. False: the level cannot be had, and a
/// line has been printed.
bool prepare_containment(machine::ContainmentLevel level, bool may_go_without,
                         std::optional<machine::GuardedCgroup>& cgroup);

}  // namespace ddprun::warden
