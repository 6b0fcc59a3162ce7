#include "warden/prepare_containment.hpp"

#include <utility>

#include "machine/processes/pid_namespace.hpp"
#include "warden/own_process.hpp"

namespace ddprun::warden {

bool prepare_containment(machine::ContainmentLevel level, bool may_go_without,
                         std::optional<machine::GuardedCgroup>& cgroup) {
  switch (level) {
    case machine::ContainmentLevel::tree:
      return true;
    case machine::ContainmentLevel::pidns:
      if (const auto opened = machine::open_pid_namespace(); !opened) {
        print_line("cannot make a pid namespace: " + opened.error().message());
        print_line(machine::kPidNamespaceHint);
        return false;
      }
      return true;
    case machine::ContainmentLevel::cgroup:
      break;
  }
  auto made = machine::GuardedCgroup::make();
  if (made) {
    cgroup.emplace(std::move(*made));
    return true;
  }
  if (may_go_without) return true;
  print_line("cannot make a cgroup for the workers: " + made.error().message() +
             "; use --contain=auto, which falls back to tree");
  return false;
}

}  // namespace ddprun::warden
