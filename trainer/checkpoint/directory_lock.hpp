// One run at a time writes into a directory.
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

}  // namespace ddprun::trainer
