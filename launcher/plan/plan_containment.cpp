// How surely nothing of the job survives: what was asked for, and what can be had here.
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {

Outcome<bool> plan_containment(const LaunchOptions& options, const Probes& probes,
                               LaunchPlan& plan) {
  using machine::ContainmentLevel;
  switch (options.containment) {
    case Containment::automatic:
      // Only where it is ours by agreement: a cgroup is visible to whoever manages the machine.
      plan.containment = probes.cgroup_delegated() ? machine::ContainmentLevel::cgroup
                                                   : machine::ContainmentLevel::tree;
      return true;
    case Containment::tree:
      plan.containment = machine::ContainmentLevel::tree;
      return true;
    case Containment::pidns:
      plan.containment = machine::ContainmentLevel::pidns;
      return true;
    case Containment::cgroup:
      break;
  }
  plan.containment = machine::ContainmentLevel::cgroup;
  if (probes.cgroup_possible()) return true;
  return usage_error(
      "--contain=cgroup: we may make no cgroup here (version 2, Linux 5.14 or newer, and a seccomp "
      "profile that lets clone3 pass); start with systemd-run --user --scope -p Delegate=yes "
      "ddprun "
      "..., or use --contain=auto or pidns");
}

}  // namespace ddprun::launcher
