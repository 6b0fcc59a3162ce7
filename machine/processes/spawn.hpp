// Starting and reaping worker processes by system calls: no fork of a big address space, no helper
// thread.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_status.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "machine/cpus/cpu_set.hpp"

namespace ddprun::machine {

/// What this process changed about itself and workers must not inherit: the user's signal mask,
/// dispositions and limits. Taken once, before anything is changed.
struct UserState {
  sigset_t mask{};
  std::vector<std::pair<int, struct sigaction>>
      dispositions;  ///< of the signals in kChangedSignals
  rlimit open_files{};

  /// The signals that the agent may have given another disposition.
  static constexpr int kChangedSignals[] = {SIGPIPE, SIGTTOU, SIGTTIN, SIGCHLD};
  static UserState take();
};

/// One process to start. Descriptors are borrowed.
struct SpawnRequest {
  std::string file;  ///< what to execute: a path, never looked up
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< NAME=VALUE
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
  CpuSet cpus;      ///< where it may run; empty: where the calling thread may
  int cgroup = -1;  ///< folder of the cgroup it is born in; -1: ours
};

struct SpawnedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;  ///< empty where the kernel has none: then SIGCHLD tells
};

/// Starts a process in a session of its own that dies (SIGKILL) with the calling thread, with the
/// descriptors 0, 1, 2 and no other, and the user's signal mask, dispositions and limits. Returns
/// once the program runs. Errors: the errno of execve or of the clone, or that of
/// sched_setaffinity, and the message tells which; no process is left then.
Result<SpawnedProcess> spawn(const SpawnRequest& request, const UserState& user);

/// How a process ended, and what it used.
struct ReapedProcess {
  ExitStatus exit;
  /// The peak is at least our own memory at the time of the spawn, which exec counts to it.
  ResourceUse used;
};

/// Takes the exit of a child that may have ended. None: it runs. Never waits.
std::optional<ReapedProcess> reap(pid_t pid);

/// The exit of a child that has ended, without taking it: its number still is its own, and its
/// process group's. None: it runs. Never waits.
std::optional<ExitStatus> exit_of(pid_t pid);

}  // namespace ddprun::machine
