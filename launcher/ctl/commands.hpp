// What ddpctl does for each of its commands.
#pragma once

#include "launcher/ctl/ctl_options.hpp"

namespace ddprun::ctl {

/// Asks the job, prints its answers to stdout and problems to stderr. Gives the exit code.
int run(const CtlOptions& options, bool has_stdout);

}  // namespace ddprun::ctl
