// Where the secret of a job of several nodes lies. Pure.
#pragma once

#include <string>

#include "launcher/options/environment.hpp"
#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// --rdzv-secret-file, else `ddprun/secret` in the user's folder for settings; empty: there is no
/// such folder, as neither XDG_CONFIG_HOME nor HOME is set.
std::string secret_path(const LaunchOptions& options, const Environment& environment);

}  // namespace ddprun::launcher
