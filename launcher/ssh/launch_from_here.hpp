// The launch of a job on other hosts, with what this machine adds to it.
#pragma once

#include <string>

#include "launcher/ssh/ssh_launch.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::launcher {

/// `command` is ours, `folder` where it was typed; empty: it was deleted.
LaunchResult<SshLaunch> launch_from_here(const LaunchOptions& options,
                                         const Environment& environment,
                                         std::vector<std::string> command, std::string folder);

/// Runs the job until nothing of it is left that is known of, prints its report, and returns its
/// exit code. Called once, before there is any other thread.
int run_ssh_job(SshLaunch launch, const machine::UserState& user);

}  // namespace ddprun::launcher
