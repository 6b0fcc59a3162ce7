// The manual page in roff (man macros), from the option table.
#pragma once

#include <string>

namespace ddprun::launcher {

/// ddprun(1), complete; for a file ddprun.1 or `man -l -`.
std::string man_page();

}  // namespace ddprun::launcher
