// What the warden does to and with its own process: its title, its lines, and what keeps it from
// starving on a machine that is out of CPU time or memory: it must kill workers when their lease is
// over, whatever else the machine does.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddprun::warden {

/// For the calling process, as far as this user may: it runs before others (SCHED_RR, else a lower
/// nice value), its memory stays in memory, and the kernel ends it last when memory is short. What
/// is not allowed is left as it is. Children that are forked later inherit neither priority nor
/// memory.
void protect_from_starving();

/// Writes `ddprun: LINE` to stderr. Uses no buffer, because the warden must print it even when
/// nothing else works, and never waits longer than 0.5 s for a reader that has stopped.
void print_line(const std::string& line);

/// The memory of the command line, as the kernel has laid it out. It must not be read as `argv` any
/// more once a title has been set.
std::span<char> title_room(int argc, char** argv);

/// Shows `title`, cut to the room, in place of the command line. No room: nothing happens.
void set_process_title(std::span<char> room, std::string_view title);

}  // namespace ddprun::warden
