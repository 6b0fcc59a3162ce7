// The text of --help, from the option table.
#pragma once

#include <string>

namespace ddprun::launcher {

/// Examples first, then the options by group; no line is longer than 100 columns, no colours.
std::string help_text();

/// How PROGRAM is looked for, one sentence a line; help and man page show it.
std::string program_rules();

}  // namespace ddprun::launcher
