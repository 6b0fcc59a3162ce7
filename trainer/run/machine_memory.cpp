#include "trainer/run/machine_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

/// Rows of a name and a number: meminfo's "MemTotal: 1000 kB", memory.stat's "inactive_file 1000".
std::map<std::string, std::uint64_t> rows_of(const fs::path& file) {
  std::map<std::string, std::uint64_t> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t end = line.find_first_of(": ");
    const std::size_t digits = line.find_first_of("0123456789", std::min(end, line.size()));
    if (digits == std::string::npos) continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), value);
    rows[line.substr(0, end)] = value;
  }
  return rows;
}

/// "max", and what is not there, is no number.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// Where a version of cgroups has its files.
struct CgroupFiles {
  fs::path mount, group;
  const char* limit;
  const char* used;
  const char* reclaimable;  // a row of memory.stat
};

/// Our memory cgroup by /proc/self/cgroup: "0::/a/b" (version 2), "5:memory:/a/b" (version 1).
std::optional<CgroupFiles> find_cgroup(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  std::optional<CgroupFiles> found;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers.find(",memory,") != std::string::npos)
      return CgroupFiles{mount / "memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};
    if (controllers == ",,")
      found = CgroupFiles{mount, group, "memory.max", "memory.current", "inactive_file"};
  }
  return found;
}

/// Takes over the limit of one cgroup if it is the least so far.
void limit_by(const CgroupFiles& files, const fs::path& folder, MachineMemory& memory) {
  const auto limit = number_in(folder / files.limit);
  if (!limit) return;
  const std::uint64_t used = number_in(folder / files.used).value_or(0);
  const std::uint64_t reclaimable = rows_of(folder / "memory.stat")[files.reclaimable];
  const std::uint64_t held = used - std::min(used, reclaimable);
  if (memory.most == 0 || *limit < memory.most) {
    memory.most = *limit;
    memory.is_cgroup = true;
  }
  memory.available = std::min(memory.available, *limit - std::min(*limit, held));
}

}  // namespace

MachineMemory machine_memory(const fs::path& root) {
  constexpr std::uint64_t kKilobyte = 1024;
  auto rows = rows_of(root / "proc/meminfo");
  if (rows["MemTotal"] == 0) return {};
  MachineMemory memory;
  memory.most = (rows["MemTotal"] + rows["SwapTotal"]) * kKilobyte;
  memory.available = (rows["MemAvailable"] + rows["SwapFree"]) * kKilobyte;
  const auto cgroup = find_cgroup(root);
  if (!cgroup) return memory;
  // In a container the path may be that of the host, of which nothing is here but the top.
  for (fs::path group = cgroup->group; !group.empty(); group = group.parent_path())
    limit_by(*cgroup, cgroup->mount / group, memory);
  limit_by(*cgroup, cgroup->mount, memory);
  return memory;
}

}  // namespace ddprun::trainer
