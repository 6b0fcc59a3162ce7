// Where a program of the user's is.
#pragma once

#include <string>

namespace ddprun::launcher {

/// The file that a shell would execute for this name: a path as it is, else the first in PATH.
/// Empty: none.
std::string find_program(const std::string& name);

}  // namespace ddprun::launcher
