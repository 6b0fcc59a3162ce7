// Completion scripts for shells, from the option table.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The script for `bash`, `zsh` or `fish`; empty for any other shell. Options are completed only
/// before PROGRAM, files and commands in its place, files behind it.
std::string completion_script(std::string_view shell);

}  // namespace ddprun::launcher
