// What a program's file tells: the interpreter that it is for, and whether the number of OpenMP's
// threads may matter to it. Pure; files are read through a probe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/program/program.hpp"

namespace ddprun::launcher {

inline constexpr std::size_t kFirstLineMax = 256;  ///< the kernel looks no further

/// Why Python should not be given this file, although it is not executable; empty when it may.
std::string foreign_content(std::string_view name, std::string_view first_bytes);

/// Whether it is meant for a shell, but no #! line tells the kernel which one.
bool is_bare_shell_script(std::string_view name, std::string_view first_bytes);

/// The program that env does not find because the script's lines end in CR LF, and env takes the CR
/// for a part of the name. Empty: the first line is another one.
std::string lost_by_env(std::string_view first_bytes);

/// The interpreter that a script's first line names, without its folder. Empty: none, or it has
/// arguments or variables there.
std::string interpreter_of(std::string_view first_bytes);

/// Python programs (their libraries use it), and programs that are linked to a library of OpenMP.
/// Our own trainer is not, and of a shell script it is not known what it starts.
bool may_use_openmp(const ProgramChoice& program, const FileProbe& files);

}  // namespace ddprun::launcher
