#include "agent/evidence/disk_space.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

namespace ddprun::agent {

std::string shortage(const DiskSpace& space) {
  if (space.bytes == 0) return "has no space left";
  if (space.bytes < kDiskBytesLeast)
    return fmt::format("has only {} bytes of space left", space.bytes);
  return space.has_inodes ? "" : "has no inodes left";
}

std::string disk_shortage(const std::string& folder) {
  struct statvfs status {};
  if (folder.empty() || statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return "";
  // A part of the disk is root's alone.
  const auto blocks = geteuid() == 0 ? status.f_bfree : status.f_bavail;
  // File systems without a table of inodes count none at all.
  const bool has_inodes = status.f_files == 0 || status.f_favail > 0;
  const std::string what = shortage({blocks * status.f_frsize, has_inodes});
  return what.empty() ? "" : folder + " " + what;
}

}  // namespace ddprun::agent
