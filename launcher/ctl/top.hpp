// `ddpctl top`: asks a job again and again, and shows its answers on the whole terminal.
#pragma once

#include "launcher/ctl/ctl_options.hpp"

namespace ddprun::ctl {

/// Until the user leaves, the job ends, or it cannot be asked any more. The terminal is as it was
/// before, whichever it is. Gives the exit code: 0, or 128 + a signal that ended it. Throws Failed
/// (asked_job.hpp).
int show_top(const CtlOptions& options);

}  // namespace ddprun::ctl
