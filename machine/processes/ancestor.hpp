// A process from which this one descends, held so that its end can be waited for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"

namespace ddprun::machine {

struct Ancestor {
  pid_t pid = -1;
  std::string name;  ///< comm, at most 15 bytes
  UniqueFd pidfd;    ///< readable when it has ended
};

/// The nearest ancestor with a name that begins with one of `names`. None: there is no such one, it
/// is outside of our pid namespace (a container's), or the kernel has no pidfds (before 5.3).
std::optional<Ancestor> find_ancestor(const std::vector<std::string>& names);

}  // namespace ddprun::machine
