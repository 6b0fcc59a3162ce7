// Begins a line of our own on an output that others write to as well.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// What to write to `fd` first, so that the text behind it begins on a line of its own; empty:
/// nothing. `unfinished`: whether the last line there was not ended; none: workers write to it
/// themselves. Then a file is looked at, and a terminal gets as many blanks as it is wide and a
/// carriage return, which ends a line only where one was begun; of a pipe nothing can be known.
std::string line_start(int fd, std::optional<bool> unfinished);

}  // namespace ddprun
