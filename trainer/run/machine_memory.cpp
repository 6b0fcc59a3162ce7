#include "trainer/run/machine_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/cgroup_places.hpp"
#include "base/small_file.hpp"

namespace ddprun::trainer {
namespace {

/// In a folder of a cgroup.
struct CgroupFiles {
  const char* limit;
  const char* used;
  const char* reclaimable;  // a row of memory.stat
};
constexpr CgroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                "total_inactive_file"};
constexpr CgroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};

/// Of a file with one number: "max", and what is not there, is none.
std::optional<std::uint64_t> number_of_file(const std::string& file) {
  const std::string text = read_small_file(file).value_or("");
  std::uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

/// Takes over the limit of one cgroup if it is the least so far.
void limit_by(const CgroupFiles& files, const std::string& folder, MachineMemory& memory) {
  const auto limit = number_of_file(folder + files.limit);
  if (!limit) return;
  const std::uint64_t used = number_of_file(folder + files.used).value_or(0);
  const std::string rows = read_small_file(folder + "/memory.stat").value_or("");
  const std::uint64_t reclaimable = counter_in(rows, files.reclaimable).value_or(0);
  const std::uint64_t held = used - std::min(used, reclaimable);
  if (memory.most == 0 || *limit < memory.most) {
    memory.most = *limit;
    memory.is_cgroup = true;
  }
  memory.available = std::min(memory.available, *limit - std::min(*limit, held));
}

/// 0: none.
std::uint64_t limit_of_address_space() {
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_AS, &limit) == 0;
  return is_known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : 0;
}

}  // namespace

MachineMemory machine_memory(const std::filesystem::path& root_path) {
  constexpr std::uint64_t kKilobyte = 1024;
  const std::string root = root_path == "/" ? "" : root_path.string();
  const std::string rows = read_small_file(root + "/proc/meminfo").value_or("");
  const auto row = [&](const char* name) { return counter_in(rows, name).value_or(0); };
  if (row("MemTotal:") == 0) return {};
  MachineMemory memory;
  memory.address_space = limit_of_address_space();
  memory.most = (row("MemTotal:") + row("SwapTotal:")) * kKilobyte;
  memory.available = (row("MemAvailable:") + row("SwapFree:")) * kKilobyte;
  for (CgroupPlace& place : own_cgroups("memory", root)) {
    while (true) {
      limit_by(place.unified ? kVersion2 : kVersion1, root + place.mount_point + place.path,
               memory);
      if (place.path.empty()) break;
      place.path.resize(place.path.rfind('/'));  // it begins with one
    }
  }
  return memory;
}

}  // namespace ddprun::trainer
