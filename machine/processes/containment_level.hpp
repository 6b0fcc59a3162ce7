// How surely nothing of a job survives it. docs/containment.md says what each level covers.
#pragma once

#include <string_view>

namespace ddprun::machine {

enum class ContainmentLevel {
  tree,    ///< two subreapers, parent-death signals
  cgroup,  ///< the workers are in a cgroup (v2) of their own, with a guard that kills it
  pidns,   ///< the agent is the init of a pid namespace, which the kernel ends with it
};

constexpr std::string_view to_string(ContainmentLevel level) {
  switch (level) {
    case ContainmentLevel::tree:
      return "tree";
    case ContainmentLevel::cgroup:
      return "cgroup";
    case ContainmentLevel::pidns:
      return "pidns";
  }
  return "";
}

}  // namespace ddprun::machine
