// The end of everything below us: kill, reap, until no process is left.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "machine/processes/process_tree.hpp"

namespace ddprun::machine {

/// Processes below us that stay when all others end.
struct KeptProcesses {
  pid_t alone = -1;          ///< without what is below it; -1: there is none
  std::set<pid_t> sessions;  ///< all processes of these sessions, with what is below them
  /// Such sessions outside of the job's cgroup.
  std::set<pid_t> sessions_outside = {};

  [[nodiscard]] bool none() const {
    return alone <= 0 && sessions.empty() && sessions_outside.empty();
  }
  [[nodiscard]] bool has(pid_t pid) const;
  /// Those of live descendants, parents first, that do not stay.
  [[nodiscard]] std::vector<ProcessEntry> others_of(std::vector<ProcessEntry> all) const;
};

/// True when this process has any child, dead or alive, or where some are kept, any descendant but
/// those.
bool has_children(const KeptProcesses& kept = {});

/// SIGKILLs all processes below this one and reaps them: they become our children when their
/// parents end, because we are a subreaper. Each process is sent it once, and looks at /proc take a
/// small part of the time, so that many that die slowly cost no more than few. For the ends of
/// rounds and of the job only. SIGCHLD must be blocked in the calling thread.
class ChildrenKiller {
 public:
  using Clock = std::chrono::steady_clock;
  using Signal = std::function<bool(const ProcessEntry&, int signal)>;

  /// `deadline`: then it is given up, after two looks at least. `killed`: is told of each process
  /// that was sent SIGKILL; may be empty. `kept`, asked at each look, stay; empty: none does.
  explicit ChildrenKiller(Clock::time_point deadline,
                          std::function<void(const ProcessEntry&)> killed = {},
                          Signal send = signal_process, std::function<KeptProcesses()> kept = {});

  /// Blocks until then at most. True: nothing is left, or the deadline has passed.
  bool go_on(Clock::time_point until);
  /// Those that the newest look has found, parents first. When `go_on` has returned true: those
  /// that are left, one entry without a pid where none of them can be seen.
  [[nodiscard]] const std::vector<ProcessEntry>& left() const { return left_; }
  /// All that have ended meanwhile.
  [[nodiscard]] const std::set<pid_t>& reaped() const { return reaped_; }

 private:
  void reap_the_dead();
  void look(Clock::time_point until);
  [[nodiscard]] Clock::time_point look_due(Clock::time_point now) const;
  [[nodiscard]] bool is_given_up(Clock::time_point now) const;

  Clock::time_point deadline_;
  std::function<void(const ProcessEntry&)> killed_;
  Signal send_;
  std::function<KeptProcesses()> kept_;
  Clock::time_point begin_ = Clock::now();
  std::optional<ProcessWalk> walk_;  // none: a look begins at next_look_
  Clock::time_point look_began_;
  Clock::time_point look_ended_;
  Clock::time_point next_look_ = begin_;
  int looks_ = 0;
  bool sees_processes_ = true;
  std::vector<ProcessEntry> left_;
  std::size_t next_ = 0;                            // of left_, to be sent SIGKILL
  std::set<std::pair<pid_t, std::uint64_t>> sent_;  // pid and start time
  std::set<pid_t> reaped_;
};

/// All of it in one call. Returns those that are left.
std::vector<ProcessEntry> kill_all_children(std::chrono::steady_clock::time_point deadline);

}  // namespace ddprun::machine
