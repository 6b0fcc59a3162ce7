// How surely nothing of the job survives: what was asked for, and what can be had here.
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {

LaunchResult<void> plan_containment(const LaunchOptions& options, const Probes& probes,
                                    LaunchPlan& plan) {
  using machine::ContainmentLevel;
  plan.warden.cgroup_optional = options.failures.containment == Containment::automatic;
  ContainmentLevel& level = plan.warden.containment;
  switch (options.failures.containment) {
    case Containment::automatic:
      // Only where it was delegated to us: people who manage the machine see a cgroup.
      level = probes.cgroup_delegated() ? ContainmentLevel::cgroup : ContainmentLevel::tree;
      break;
    case Containment::tree:
      level = ContainmentLevel::tree;
      break;
    case Containment::pidns:
      level = ContainmentLevel::pidns;
      break;
    case Containment::cgroup:
      level = ContainmentLevel::cgroup;
      break;
  }
  plan.agent.containment = level;
  if (options.failures.containment != Containment::cgroup || probes.cgroup_possible()) return {};
  return usage_error(
      "--contain=cgroup: cannot create a cgroup here (needs cgroup version 2, Linux 5.14 or newer, "
      "and "
      "clone3 allowed by seccomp); start with systemd-run --user --scope -p Delegate=yes "
      "ddprun ..., or use --contain=auto or pidns");
}

}  // namespace ddprun::launcher
