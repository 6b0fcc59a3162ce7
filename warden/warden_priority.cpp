#include "warden/warden_priority.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

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

}  // namespace ddprun::warden
