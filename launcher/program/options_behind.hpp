// Options of ddprun that were typed behind PROGRAM, where they are PROGRAM's. Pure; the script is
// read through a probe.
#pragma once

#include <string>

#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// A warning about options that launchers have, and scripts hardly ever, behind a Python script or
/// module that does not declare them itself; empty: nothing stands there. The last `own_arguments`
/// of argv are PROGRAM's own.
std::string launcher_options_behind(const ProgramChoice& program, std::size_t own_arguments,
                                    const FileProbe& files);

}  // namespace ddprun::launcher
