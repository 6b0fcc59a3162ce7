#include "machine/processes/kill_children.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun::machine {
namespace {

using Clock = std::chrono::steady_clock;

// A child that has not died of SIGKILL by then is stuck in the kernel, and does not give its own
// children to us.
constexpr std::chrono::milliseconds kStuckAfter{200};
constexpr std::chrono::milliseconds kLookAgainAfter{5};
constexpr std::chrono::milliseconds kLookAgainAtStuck{50};

void wait_for_child(Clock::duration limit) {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const timespec pause{0, static_cast<long>(std::chrono::nanoseconds(limit).count())};
  sigtimedwait(&child_signal, nullptr, &pause);
}

void reap_the_dead() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) info.si_pid = 0;
}

}  // namespace

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::vector<ProcessEntry> kill_all_children(Clock::time_point deadline, SendSignal send) {
  // The init of a pid namespace owns all of it, and needs no /proc to find it.
  const bool owns_namespace = getpid() == 1;
  const auto begin = Clock::now();
  while (true) {
    reap_the_dead();
    if (!has_children()) return {};
    const auto now = Clock::now();
    const bool stuck = now - begin >= kStuckAfter;
    if (owns_namespace) {
      send(-1, SIGKILL);
    } else {
      for (const ProcessEntry& child : live_children()) send(child.pid, SIGKILL);
    }
    if (stuck && !owns_namespace) {
      for (const ProcessEntry& process : live_descendants()) {
        if (process.parent != getpid()) signal_process(process, SIGKILL);
      }
    }
    if (now >= deadline) {
      auto left = live_descendants();
      if (left.empty()) left.emplace_back();  // there is one, though it cannot be seen
      return left;
    }
    // A killed child tells by SIGCHLD; its own children become ours at the same moment. The upper
    // bound is for a child that was born after the walk through /proc.
    wait_for_child(
        std::min<Clock::duration>(deadline - now, stuck ? kLookAgainAtStuck : kLookAgainAfter));
  }
}

}  // namespace ddprun::machine
