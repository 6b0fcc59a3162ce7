// The cgroup (version 2) that a job's workers are born in, so that one write kills all of them,
// also those that became another user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::machine {

class JobCgroup {
 public:
  /// Where ours would be made. Empty: no cgroup of version 2 is mounted, or the kernel is older
  /// than 5.14 and cannot kill one.
  static std::string parent_folder();

  /// Whether we may make one there, and start processes in it.
  static bool possible();

  /// Whether one is possible, and that folder was given to us to make cgroups in: the machine has
  /// version 2 alone, and systemd has marked the folder as delegated or it belongs to us and
  /// we are not root.
  static bool delegated();

  /// Chooses the name; does not create the cgroup.
  explicit JobCgroup(const std::string& parent);
  /// Creates it. Errors: the system's.
  Result<void> make();

  /// For clone3's CLONE_INTO_CGROUP.
  [[nodiscard]] int folder_fd() const { return folder_fd_.get(); }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// SIGKILL for all processes in it, at one instant. Does not wait.
  void kill() const;
  /// False: something is in it still.
  bool remove() const;

 private:
  std::string folder_;
  UniqueFd folder_fd_;
};

/// A cgroup with its guard: a process that sleeps until neither the warden nor the agent lives,
/// then kills what is in the cgroup and removes it.
class GuardedCgroup {
 public:
  /// Starts the guard, then makes the cgroup, so that at no instant it is without one. Called by
  /// the warden, with all signals blocked and no other thread, before the agent is forked: the
  /// agent inherits what keeps the guard asleep. Errors: the system's; nothing is left then.
  static Result<GuardedCgroup> make();

  [[nodiscard]] const JobCgroup& cgroup() const { return cgroup_; }
  [[nodiscard]] pid_t guard() const { return guard_; }
  /// For one that was killed, and reaped. False: none can be started now.
  bool replace_guard();
  /// Everything in it is killed and the guard is gone; the folder is still there.
  void kill() const;

 private:
  explicit GuardedCgroup(JobCgroup cgroup) : cgroup_(std::move(cgroup)) {}

  JobCgroup cgroup_;
  pid_t guard_ = -1;
  UniqueFd life_;      // the writing end of the pipe that the guard reads
  UniqueFd life_end_;  // the reading one, for the next guard
};

/// Kills for memory so far: those of our own cgroup where it counts them (version 2), else those of
/// the whole machine. None: the kernel does not say. `root` stands before every path.
std::optional<std::uint64_t> memory_kill_count(const std::string& root = "");

}  // namespace ddprun::machine
