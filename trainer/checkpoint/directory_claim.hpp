// One run at a time writes into a directory (DirectoryLock), and of that run one round.
//
// Which round of a job writes checkpoints into a directory: the last one that claimed it. A worker
// of an older round that was cut off from the job, and is about to be killed for it, finds there
// that it comes too late, also where it comes to claim after the newer round did.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

/// A lock (flock) on the directory itself, so that no file is left. It ends with the process. Where
/// the file system has no such locks, or the directory is not there, nothing is locked.
class DirectoryLock {
 public:
  /// Waits so long for another process that has it. Throws DataError that names the process, if
  /// that is known.
  DirectoryLock(const std::filesystem::path& directory, std::chrono::milliseconds wait);

 private:
  UniqueFd fd_;
};

/// A lock (flock) on an open file or directory. False: another process has it until the deadline.
/// Where the file system has no such locks: true.
bool lock_until(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline);

/// The process that holds a lock of flock() on this file, by the lines of /proc/locks; none: it is
/// on another machine, or of a device that the kernel shows otherwise. Pure.
std::optional<pid_t> holder_of_lock(std::string_view locks, dev_t device, std::uint64_t inode);

class DirectoryClaim {
 public:
  struct Round {
    std::string run_id;
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
  };

  /// Claims `directory`, which is made if need be: once this returns, no earlier claim can publish
  /// there any more. Throws std::system_error, and DataError where another process publishes for
  /// longer than 10 s, or where a later round of the same run claimed it and is alive (a higher
  /// epoch, or a higher number in the same one): a claim counts as alive as long as its object
  /// lives. (A run that ended is no obstacle: the next one of the same id may count its epochs and
  /// rounds from the beginning again.)
  DirectoryClaim(const std::filesystem::path& directory, Round round);

  /// While the result is held, no process can claim the directory. Throws DataError where a later
  /// round of the same run has. Runs of other ids may share a directory.
  [[nodiscard]] UniqueFd hold() const;

 private:
  std::filesystem::path path_;
  Round round_;
  std::string token_;  // differs for each claim
  UniqueFd alive_;     // its lock tells others that this process lives; none: no locks here
};

}  // namespace ddprun::trainer
