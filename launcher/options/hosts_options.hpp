// The options of a job that is started through ssh.
#pragma once

#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// Fills options.hosts. Errors: options that exclude each other.
LaunchResult<void> take_hosts(const ParsedCommandLine& parsed, LaunchOptions& options);

}  // namespace ddprun::launcher
