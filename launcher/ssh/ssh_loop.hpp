// The launcher of a job on the hosts of --hosts: the shell around SshJob. It has the rendezvous,
// one ssh for each host, and this terminal.
#pragma once

#include "launcher/ssh/ssh_launch.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::launcher {

/// Runs the job until nothing of it is left that is known of, prints its report, and returns its
/// exit code. Called once, before there is any other thread.
int run_ssh_job(SshLaunch launch, const machine::UserState& user);

}  // namespace ddprun::launcher
