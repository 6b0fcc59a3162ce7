// How the warden reports something to the user.
#pragma once

#include <string>

namespace ddprun::warden {

/// Writes `ddprun: LINE` to stderr. Uses no buffer, because the warden must print it even when
/// nothing else works, and never waits longer than 0.5 s for a reader that has stopped.
void print_line(const std::string& line);

}  // namespace ddprun::warden
