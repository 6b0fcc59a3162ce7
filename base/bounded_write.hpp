// Writes to an output that others have as well: begins a line of our own, and does not wait for the
// reader beyond a limit.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Writes until all is written or the limit has passed; true: all is. False: errno says why, and
/// ETIMEDOUT that it was the limit. The descriptor may be a blocking one, and its reader may have
/// stopped; it is left as it is: a terminal or pipe is opened once more, for writes that do not
/// wait.
bool write_within(int fd, std::string_view bytes, std::chrono::milliseconds limit);

/// What to write to `fd` first, so that the text behind it begins on a line of its own; empty:
/// nothing. `unfinished`: whether the last line there was not ended; none: workers write to it
/// themselves. Then a file is looked at, and a terminal gets a newline, be it an empty line (blanks
/// as wide as the terminal and a carriage return would show up in recordings of it); of a pipe
/// nothing can be known.
std::string line_start(int fd, std::optional<bool> unfinished);

}  // namespace ddprun
