// rdzvd at work: a store and the rendezvous service, each on its own thread, and this one for
// signals and the log.
#pragma once

#include "rendezvous/daemon/options.hpp"

namespace ddprun::rdzv {

/// Serves until SIGTERM, SIGINT or SIGHUP. Prints the bound address as the first line on stdout.
/// Blocks those signals for the calling thread and all that it starts. Returns the exit code.
int run_daemon(const DaemonOptions& options);

}  // namespace ddprun::rdzv
