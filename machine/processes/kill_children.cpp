#include "machine/processes/kill_children.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace ddprun::machine {
namespace {

using Clock = ChildrenKiller::Clock;

// A process that has not died of SIGKILL by then is stuck in the kernel, or is one of very many.
constexpr std::chrono::milliseconds kSlowAfter{200};
constexpr std::chrono::milliseconds kLookAgainAfter{5};
constexpr std::chrono::milliseconds kLookAgainWhenSlow{50};
constexpr int kPauseOfLook = 4;  // times what the look took
// For children to be reaped that have died and that no look finds any more.
constexpr std::chrono::seconds kUnseenLimit{1};

void wait_for_child(Clock::duration limit) {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec pause{seconds.count(),
                       static_cast<long>(std::chrono::nanoseconds(limit - seconds).count())};
  sigtimedwait(&child_signal, nullptr, &pause);
}

/// The kernel's own list takes no walk. It may leave out one while others end.
bool is_parent_of_another(const KeptProcesses& kept) {
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      if (!kept.has(child)) return true;
    }
  }
  return false;
}

}  // namespace

bool KeptProcesses::has(pid_t pid) const {
  if (pid == alone) return true;
  if (sessions.empty() && sessions_outside.empty()) return false;
  const pid_t session = getsid(pid);
  return sessions.contains(session) || sessions_outside.contains(session);
}

std::vector<ProcessEntry> KeptProcesses::others_of(std::vector<ProcessEntry> all) const {
  std::set<pid_t> stays;
  std::erase_if(all, [&](const ProcessEntry& process) {
    if (process.pid == alone) return true;
    if (!has(process.pid) && !stays.contains(process.parent)) return false;
    stays.insert(process.pid);
    return true;
  });
  return all;
}

bool has_children(const KeptProcesses& kept) {
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
  if (kept.none() || is_parent_of_another(kept)) return true;
  if (!kept.others_of(live_descendants()).empty()) return true;
  // One that has ended since is not among the living.
  info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
         !kept.has(info.si_pid);
}

ChildrenKiller::ChildrenKiller(Clock::time_point deadline,
                               std::function<void(const ProcessEntry&)> killed, Signal send,
                               std::function<KeptProcesses()> kept)
    : deadline_(deadline),
      killed_(std::move(killed)),
      send_(std::move(send)),
      kept_(kept ? std::move(kept) : [] { return KeptProcesses(); }) {}

bool ChildrenKiller::go_on(Clock::time_point until) {
  while (true) {
    reap_the_dead();
    if (!has_children(kept_())) {
      left_.clear();
      return true;
    }
    const auto now = Clock::now();
    if (is_given_up(now)) {
      if (left_.empty()) left_.emplace_back();  // there is one, though it cannot be seen
      return true;
    }
    const auto due = look_due(now);
    if (walk_ || now >= due) {
      look(until);
    } else if (now < until) {
      // What was killed ends by itself. A look is for those that were born after the one before.
      wait_for_child(std::min(until, due) - now);
    }
    if (Clock::now() >= until) return false;
  }
}

void ChildrenKiller::reap_the_dead() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
    reaped_.insert(std::exchange(info.si_pid, 0));
}

/// Until all that were found have been sent SIGKILL, or it is time.
void ChildrenKiller::look(Clock::time_point until) {
  if (!walk_) {
    walk_.emplace();
    look_began_ = Clock::now();
    next_ = 0;
    // The init of a pid namespace owns all of it, and needs no /proc to find it.
    if (getpid() == 1 && kept_().none()) ::kill(-1, SIGKILL);
  }
  if (next_ == 0) {  // no process of this look was signalled: the walk is not over
    if (!walk_->go_on(until)) return;
    sees_processes_ = walk_->sees_processes();
    left_ = kept_().others_of(walk_->take_descendants());
  }
  while (next_ < left_.size()) {
    const ProcessEntry& process = left_[next_++];
    const std::pair identity(process.pid, process.start_time);
    if (!sent_.contains(identity) && send_(process, SIGKILL)) {
      sent_.insert(identity);
      if (killed_) killed_(process);
    }
    if (Clock::now() >= until && next_ < left_.size()) return;
  }
  walk_.reset();
  ++looks_;
  look_ended_ = Clock::now();
  const Clock::duration pause =
      look_ended_ - begin_ < kSlowAfter ? kLookAgainAfter : kLookAgainWhenSlow;
  next_look_ = look_ended_ + std::max(pause, kPauseOfLook * (look_ended_ - look_began_));
}

/// The last one needs no long pause before it.
Clock::time_point ChildrenKiller::look_due(Clock::time_point now) const {
  if (now < deadline_) return std::min(next_look_, deadline_);
  return std::min(next_look_, look_ended_ + kLookAgainAfter);
}

bool ChildrenKiller::is_given_up(Clock::time_point now) const {
  const bool has_looked = !walk_ && looks_ >= 2 && look_began_ >= deadline_;
  const bool may_be_reaped = left_.empty() && sees_processes_ && now < deadline_ + kUnseenLimit;
  return has_looked && !may_be_reaped;
}

std::vector<ProcessEntry> kill_all_children(Clock::time_point deadline) {
  ChildrenKiller killer(deadline);
  killer.go_on(Clock::time_point::max());
  return killer.left();
}

}  // namespace ddprun::machine
