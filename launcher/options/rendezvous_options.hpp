// The options about where nodes and workers meet, checked. Pure.
#pragma once

#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// Fills in everything from `nodes` to `ports`, but for the file of the secret: nothing is read.
LaunchResult<void> take_rendezvous(const ParsedCommandLine& parsed, LaunchOptions& options);

}  // namespace ddprun::launcher
