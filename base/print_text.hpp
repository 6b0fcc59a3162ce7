// What a program prints and is asked for alone: its help, its version, a dry run.
#pragma once

#include <string_view>

namespace ddprun {

/// Prints the text to stdout; false: stderr has a line that says why that failed.
bool print_text(const char* program, std::string_view text);

}  // namespace ddprun
