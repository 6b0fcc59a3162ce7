// Where our own cgroups are in the file system, of either version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct CgroupPlace {
  std::string mount_point;  ///< /sys/fs/cgroup
  std::string path;         ///< of our cgroup below it: empty, or /a/b
  bool unified = true;      ///< version 2; else version 1
};

/// Our place in the one hierarchy of version 2 and in that of version 1 with this controller, from
/// the texts of /proc/self/cgroup and /proc/self/mountinfo. Pure; a text that is garbage gives
/// none.
std::vector<CgroupPlace> cgroup_places(std::string_view controller, std::string_view cgroup_text,
                                       std::string_view mountinfo_text);

/// The places of this process, with the texts read from /proc. `root` stands before every path.
std::vector<CgroupPlace> own_cgroups(std::string_view controller, const std::string& root = "");

}  // namespace ddprun
