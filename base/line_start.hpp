// Begins a line of our own on an output that others write to as well.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// What to write to `fd` first, so that the text behind it begins on a line of its own; empty:
/// nothing. `unfinished`: whether the last line there was not ended; none: workers write to it
/// themselves. Then a file is looked at, and a terminal gets a newline, be it an empty line (blanks
/// as wide as the terminal and a carriage return would show up in recordings of it); of a pipe
/// nothing can be known.
std::string line_start(int fd, std::optional<bool> unfinished);

}  // namespace ddprun
