// Which variables of the launcher's environment the hosts of --hosts get. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// The names that are always passed; one that ends with * stands for all that begin so.
std::span<const std::string_view> passed_by_default();

/// NAME=VALUE of the variables that are passed: those of passed_by_default(), and those of
/// --pass-env, `NAME,PREFIX*,NAME=VALUE`. Errors: a name that is none.
LaunchResult<std::vector<std::string>> passed_environment(const Environment& environment,
                                                          std::string_view pass_env);

}  // namespace ddprun::launcher
