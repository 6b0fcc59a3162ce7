// Where the job runs and how its nodes meet: the options of nodes, rendezvous, store and hosts.
#pragma once

#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// Fills the groups `nodes`, `rendezvous` and `store`. The file of the secret is not read.
LaunchResult<void> take_rendezvous(const ParsedCommandLine& parsed, LaunchOptions& options);

/// Fills the group `hosts`. Errors: options that exclude each other.
LaunchResult<void> take_hosts(const ParsedCommandLine& parsed, LaunchOptions& options);

}  // namespace ddprun::launcher
