// Options of ddprun's own that have no effect beside the others that were given. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// A warning for each: `--restart-window=60 has no effect here: ...`. Those of torchrun are not
/// named: its users write --rdzv-backend and --rdzv-endpoint for one node, too. Nor are those of
/// the secret, which are written for all jobs, nor a variable.
std::vector<std::string> options_without_effect(const ParsedCommandLine& parsed,
                                                const LaunchOptions& options);

}  // namespace ddprun::launcher
