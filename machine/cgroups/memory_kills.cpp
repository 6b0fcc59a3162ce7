#include "machine/cgroups/memory_kills.hpp"

#include "base/cgroup_places.hpp"
#include "base/small_file.hpp"

namespace ddprun::machine {

std::optional<std::uint64_t> memory_kill_count(const std::string& root) {
  for (const CgroupPlace& place : own_cgroups("", root)) {
    const auto text = read_small_file(root + place.mount_point + place.path + "/memory.events");
    if (const auto count = text ? counter_in(*text, "oom_kill") : std::nullopt) return count;
  }
  const auto text = read_small_file(root + "/proc/vmstat");
  return text ? counter_in(*text, "oom_kill") : std::nullopt;
}

}  // namespace ddprun::machine
