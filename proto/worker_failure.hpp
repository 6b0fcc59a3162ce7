// What an agent knows of a worker that failed, and what speaks for its being the culprit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/describe.hpp"
#include "base/exit_status.hpp"

namespace ddprun::proto {

/// What speaks for a worker being the culprit, the strongest first. See docs/report.md.
enum class EvidenceKind {
  not_started,     ///< the kernel would not execute it
  memory_kill,     ///< the kernel killed it for memory
  fatal_signal,    ///< a signal that only its own fault raises: SIGSEGV, SIGABRT, ...
  hang,            ///< it made no progress while those that wait for it were further
  error_file,      ///< it left an error file
  exception_line,  ///< it wrote of an exception or a crash to its stderr or output
  own_exit,        ///< it ended by itself, other than by exit 0
  late_exit,       ///< it did so after we had begun to stop the round
};

struct Evidence {
  EvidenceKind kind = EvidenceKind::own_exit;
  std::chrono::nanoseconds at{0};  ///< its earliest sign, since the start of the round on its node
  std::string text;                ///< what it said: an exception's line, an error's message
  std::string victim_phrase;       ///< not empty: words that tell of a peer which is gone
  bool after_stop = false;         ///< it may come of our having stopped the worker
  bool timed_out = false;          ///< its words are those of a time-out: a peer may hang
  bool suspended = false;          ///< hang: a signal (SIGSTOP) held it when its round was stopped
  bool all_silent = false;         ///< hang: no worker printed anything; which one hangs is open
  bool in_output = false;          ///< exception_line: of one stream with its stdout and stderr
  /// How far `at` and other times may be off where they are compared with those of another node.
  std::chrono::nanoseconds uncertainty{0};
};

/// How far a worker was, by its progress page.
struct WorkerProgress {
  std::uint64_t step = 0;
  std::string phase;  ///< empty: it named none
};

/// All that one agent knows of one worker that failed, once it has ended. `local_rank` counts
/// within the agent's node.
struct WorkerFailure {
  int local_rank = 0;
  int pid = 0;
  ExitStatus exit;
  std::chrono::nanoseconds ran_for{0};
  std::chrono::nanoseconds ended_at{0};  ///< since the start of the round on its node
  std::string error;                     ///< empty, or why the worker could not be started
  std::vector<std::string> last_lines;   ///< the end of its stderr, where we saw it
  Evidence evidence;
  bool stopped_by_us = false;              ///< it ended after we had begun to stop the round
  std::optional<WorkerProgress> progress;  ///< where it said how far it is
  std::vector<std::string> stacks;         ///< hang: of its threads, in lines
  std::optional<ResourceUse> used;         ///< none: it was not started, or never reaped
};

}  // namespace ddprun::proto
