// A host name's address, within a limit. In a process of its own: getaddrinfo can be neither
// interrupted nor given a deadline, and the launcher may have no second thread before its forks.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace ddprun::launcher {

/// The numeric address that the system prefers for `host`; none when it did not resolve within
/// `limit`. Looks it up again each second: the name of a pod often appears after its containers
/// run. Prints what it waits for on stderr, once for each answer of the resolver. A limit of 0:
/// one look-up, of 10 s at most.
std::optional<std::string> look_up_host(const std::string& host, std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
