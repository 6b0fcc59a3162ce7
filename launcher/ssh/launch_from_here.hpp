// The launch of a job on other hosts, with what this machine adds to it.
#pragma once

#include "launcher/ssh/ssh_launch.hpp"
#include "launcher/ssh/ssh_loop.hpp"

namespace ddprun::launcher {

/// `command` is ours, `folder` where it was typed; empty: it was deleted.
LaunchResult<SshLaunch> launch_from_here(const LaunchOptions& options,
                                         const Environment& environment,
                                         std::vector<std::string> command, std::string folder);

}  // namespace ddprun::launcher
