// A pid namespace with the agent as its init: when that ends, for whatever reason, the kernel ends
// everything in it.
#pragma once

#include "base/result.hpp"

namespace ddprun::machine {

/// Makes the next child of this process the init of a new pid namespace. Where we may not, we
/// enter a user namespace of our own first, in which our user and group keep their numbers.
/// Called by the warden, with no other thread. Errors: the system's.
Result<void> open_pid_namespace();

/// In that child: gives it and those after it a /proc of their own. Errors: the system's.
Result<void> mount_own_proc();

/// What to do where either fails.
inline constexpr const char* kPidNamespaceHint =
    "--contain=pidns needs namespaces: allow user namespaces (sysctl "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, a container's "
    "seccomp profile), or use --contain=auto";

}  // namespace ddprun::machine
