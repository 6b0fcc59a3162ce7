// What `ps -f` and `top -c` show for a process: the words of its command line, written over.
#pragma once

#include <span>
#include <string_view>

namespace ddprun::warden {

/// The memory of the command line, as the kernel has laid it out. It must not be read as `argv` any
/// more once a title has been set.
std::span<char> title_room(int argc, char** argv);

/// Shows `title`, cut to the room, in place of the command line. No room: nothing happens.
void set_process_title(std::span<char> room, std::string_view title);

}  // namespace ddprun::warden
