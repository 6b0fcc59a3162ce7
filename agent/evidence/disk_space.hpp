// Whether the file system of a folder is full: what a worker can't write to its log, it can't
// report.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::agent {

/// So little space counts as none: a line of a log may not fit.
inline constexpr std::uint64_t kDiskBytesLeast = 16 * 1024;

/// What of a file system is left for this user.
struct DiskSpace {
  std::uint64_t bytes = 0;
  bool has_inodes = true;  ///< another file can be made
};

/// `has no space left`, `has only 4096 bytes of space left`, `has no inodes left`. Empty: there is
/// enough. Pure.
std::string shortage(const DiskSpace& space);

/// The shortage of space in the file system of `folder`, with the folder's name before it; empty
/// also where it can't be looked at.
std::string disk_shortage(const std::string& folder);

}  // namespace ddprun::agent
