// The answer of a short-lived program, such as its --version.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "machine/processes/spawn.hpp"

namespace ddprun::launcher {

/// What argv[0], a path, prints if it ends with 0 within the limit; else empty.
std::string answer_of(const std::vector<std::string>& argv, const machine::UserState& user,
                      std::chrono::nanoseconds limit);

}  // namespace ddprun::launcher
