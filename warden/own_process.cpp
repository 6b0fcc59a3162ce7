#include "warden/own_process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/bounded_write.hpp"
#include "base/printable.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::warden {

namespace {

constexpr int kNice = -10;
// The kernel takes such a process only where nothing else is left.
constexpr std::string_view kOutOfMemoryScore = "-900";

void run_first() {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(SCHED_RR);
  if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameters) == 0) return;
  // A user may have the right to a part of it (RLIMIT_NICE).
  for (int nice = kNice; nice < 0; ++nice) {
    if (setpriority(PRIO_PROCESS, 0, nice) == 0) return;
  }
}

}  // namespace

void protect_from_starving() {
  run_first();
  [[maybe_unused]] const int locked = mlockall(MCL_CURRENT);
  const UniqueFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const auto written =
      write(score.get(), kOutOfMemoryScore.data(), kOutOfMemoryScore.size());
}

namespace {

constexpr std::chrono::milliseconds kReaderLimit{500};

}  // namespace

void print_line(const std::string& line) {
  // A progress bar of a dead agent may stand at the cursor.
  const std::string start = line_start(STDERR_FILENO, std::nullopt);
  write_within(STDERR_FILENO, start + "ddprun: " + printable(line) + "\n", kReaderLimit);
}

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
