// Which processes there are below one of ours, what they are called and what they wait for.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::machine {

struct ProcessEntry {
  pid_t pid = -1;
  pid_t parent = -1;
  char state = '?';    ///< as in ProcessStat
  std::string name;    ///< comm, at most 15 bytes
  pid_t in_proc = -1;  ///< its pid in /proc, which in a container may be that of another namespace
};

/// Those below `root`, which is not among them, parents before their children. Pure.
std::vector<ProcessEntry> descendants_of(const std::vector<ProcessEntry>& all, pid_t root);

/// The live children of this process, and all below it, parents first, in the numbers of our own
/// pid namespace. Not atomic: a process that starts or ends meanwhile may be missing.
std::vector<ProcessEntry> live_children();
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

/// Of a child of ours, by base/process_stat.hpp; neither where that can't be read.
ChildCondition condition_of(pid_t pid);

/// `pid 77 (python3)`
std::string name_of(const ProcessEntry& entry);

/// Why it may not die: `pid 77 (python3), state D (waits in the kernel, in __refrigerator)`.
std::string describe_stuck(const ProcessEntry& entry);

}  // namespace ddprun::machine
