// The texts of --help, from the option table, and of -h.
#pragma once

#include <string>

namespace ddprun::launcher {

/// Examples first, then the options by group; no line is longer than 80 columns, no colours.
std::string help_text();

/// What most jobs need, in 25 lines of at most 80 columns.
std::string short_help_text();

/// How PROGRAM is looked for, one rule a line; help and man page show it.
std::string program_rules();

}  // namespace ddprun::launcher
