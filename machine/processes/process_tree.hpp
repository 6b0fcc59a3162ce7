// Which processes there are below one of ours, what they are called and what they wait for.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"

namespace ddprun::machine {

struct ProcessEntry {
  pid_t pid = -1;
  pid_t parent = -1;
  char state = '?';    ///< as in ProcessStat
  std::string name;    ///< comm, at most 15 bytes
  pid_t in_proc = -1;  ///< its pid in /proc, which in a container may be that of another namespace
  std::uint64_t start_time = 0;  ///< as in ProcessStat: tells two processes with one pid apart
};

/// Those below `root`, which is not among them, parents before their children. Takes time in
/// proportion to `all`. Pure.
std::vector<ProcessEntry> descendants_of(const std::vector<ProcessEntry>& all, pid_t root);

/// One look at the live processes below this one, in parts: /proc has all of the machine's, at some
/// 10 us each. Not atomic: a process that starts or ends meanwhile may be missing.
class ProcessWalk {
 public:
  using Clock = std::chrono::steady_clock;

  ProcessWalk();
  /// False: without /proc no process is seen.
  [[nodiscard]] bool sees_processes() const { return directory_ != nullptr; }
  /// Reads on until that time; true: all of it has been read.
  bool go_on(Clock::time_point until);
  /// After that, and once: parents first, in the numbers of our own pid namespace.
  std::vector<ProcessEntry> take_descendants();

 private:
  std::optional<pid_t> self_;          // in /proc's numbers, as all of entries_
  std::vector<ProcessEntry> entries_;  // of the whole machine
  std::unique_ptr<DIR, int (*)(DIR*)> directory_;
};

/// The whole walk at once.
std::vector<ProcessEntry> live_descendants();

/// Sends a signal to a process that is still what `entry` says. False: it is not, or may not be
/// signalled. Needs no guess about a pid that was used again where the kernel has pidfds (5.3).
bool signal_process(const ProcessEntry& entry, int signal);

struct ChildCondition {
  /// It has begun to end: it writes its core, frees its memory, or is not yet reaped.
  bool dying = false;
  /// A signal holds it (SIGSTOP, SIGTSTP): it runs nothing, and acts on no other signal than
  /// SIGKILL, until SIGCONT. One that a debugger holds is not suspended.
  bool suspended = false;
};

/// The condition of a child of ours, by base/process_stat.hpp; where that can't be read, neither
/// dying nor suspended.
ChildCondition condition_of(pid_t pid);

/// `pid 77 (python3)`
std::string name_of(const ProcessEntry& entry);

/// Why it may not die: `pid 77 (python3), state D (waits in the kernel, in __refrigerator)`.
std::string describe_stuck(const ProcessEntry& entry);

struct Ancestor {
  pid_t pid = -1;
  std::string name;  ///< comm, at most 15 bytes
  UniqueFd pidfd;    ///< readable when it has ended
};

/// The nearest ancestor with a name that begins with one of `names`. None: there is no such one, it
/// is outside of our pid namespace (a container's), or the kernel has no pidfds (before 5.3).
std::optional<Ancestor> find_ancestor(const std::vector<std::string>& names);

}  // namespace ddprun::machine
