// The begin and the end of main, in each of our programs: descriptors 0, 1 and 2, which a parent
// may have closed; exceptions that are not caught; a text that is printed alone.
#pragma once

#include <string_view>

namespace ddprun {

/// Opens /dev/null in the place of each that is closed: what a program opens next would take it,
/// and get what is printed. To be called first. False: stdout was closed.
bool ensure_standard_descriptors();

/// From now on such an exception ends the program with one line on stderr and `exit_code`, in place
/// of SIGABRT. Nothing is unwound and no destructor runs: a thread that is joined there may never
/// end. `program` must live as long as the process.
void end_on_uncaught_exception(const char* program, int exit_code);

/// Prints the text to stdout; false: stderr has a line with the reason. A reader that has read
/// enough, such as head, is no failure. `has_stdout`: what ensure_standard_descriptors gave;
/// without a stdout of its own the text cannot be read.
bool print_text(const char* program, std::string_view text, bool has_stdout);

}  // namespace ddprun
