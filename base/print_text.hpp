// What a program prints and is asked for alone: its help, its version, a dry run.
#pragma once

#include <string_view>

namespace ddprun {

/// Prints the text to stdout; false: stderr has a line with the reason. A reader that has read
/// enough, such as head, is no failure. `has_stdout`: what ensure_standard_descriptors gave;
/// without a stdout of its own the text cannot be read.
bool print_text(const char* program, std::string_view text, bool has_stdout);

}  // namespace ddprun
