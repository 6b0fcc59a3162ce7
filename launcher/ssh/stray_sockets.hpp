// Sockets that sshd has left in /tmp, because whatever would have removed them was killed.
#pragma once

#include <chrono>
#include <string>

namespace ddprun::launcher {

/// Between its socket's name and its first connection sshd has less than this: a younger one may
/// belong to a job that is just being started.
inline constexpr std::chrono::seconds kStrayAge{60};

/// Removes from `folder` each socket with a name that begins with kSocketPrefix, that is
/// our user's and older than kStrayAge, and at which nobody listens. Those of other running jobs
/// are asked for a connection, which ends at once. What cannot be read or removed stays.
void remove_stray_sockets(const std::string& folder);

}  // namespace ddprun::launcher
