// What to type for the doctor, a module of the Python package, which is only in the wheel. Pure.
#pragma once

#include <string>

#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// For the ddprun in `executable_folder`; `own_python`: of its environment, empty where it is in
/// none. Empty: the package was not installed with it.
std::string doctor_command(const FileProbe& files, const std::string& executable_folder,
                           const std::string& own_python);

}  // namespace ddprun::launcher
