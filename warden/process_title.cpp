#include "warden/process_title.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::warden {

std::span<char> title_room(int argc, char** argv) {
  if (argc < 1) return {};
  char* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  return {argv[0], end};
}

void set_process_title(std::span<char> room, std::string_view title) {
  if (room.empty()) return;
  // The last byte stays 0: else the kernel reads on, into the environment.
  const std::size_t shown = std::min(title.size(), room.size() - 1);
  std::copy_n(title.begin(), shown, room.begin());
  std::fill(room.begin() + static_cast<std::ptrdiff_t>(shown), room.end(), '\0');
}

}  // namespace ddprun::warden
