// Locks on open files that end with the process.
#pragma once

#include "base/unique_handle.hpp"

namespace ddprun {

enum class LockKind { shared, exclusive };

enum class LockOutcome {
  locked,
  busy,    ///< another open file has it
  failed,  ///< errno tells why; many file systems of networks have no locks
};

/// Asks for a lock (flock) on an open file or directory, and never waits. A lock that this open
/// file has already is changed to this kind. It ends when the file is closed, so with the process.
[[nodiscard]] LockOutcome try_lock(const UniqueFd& fd, LockKind kind = LockKind::exclusive);

}  // namespace ddprun
