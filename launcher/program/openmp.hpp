// Whether the number of OpenMP's threads may matter to a program. Pure; the program's file is read
// through a probe.
#pragma once

#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// Python programs (their libraries use it), and programs that are linked to a library of OpenMP.
/// Our own trainer is not, and of a shell script it is not known what it starts.
bool may_use_openmp(const ProgramChoice& program, const FileProbe& files);

}  // namespace ddprun::launcher
