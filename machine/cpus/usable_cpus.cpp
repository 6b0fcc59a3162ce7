#include "machine/cpus/usable_cpus.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/cgroup_places.hpp"
#include "base/small_file.hpp"

namespace ddprun::machine {
namespace {

std::optional<double> positive_number(std::string_view text) {
  long long number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || number <= 0)
    return std::nullopt;
  return static_cast<double>(number);
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

/// The limit of one cgroup. None: none of its own, or the file is missing or garbage.
std::optional<double> quota_in(const std::string& folder, bool unified) {
  std::string quota_text;
  std::string period_text;
  if (unified) {
    const std::string line(first_line(read_small_file(folder + "/cpu.max").value_or("")));
    const auto blank = std::min(line.find(' '), line.size());
    quota_text = line.substr(0, blank);  // may be "max"
    period_text = line.substr(std::min(blank + 1, line.size()));
  } else {
    // -1 where there is no limit.
    quota_text = first_line(read_small_file(folder + "/cpu.cfs_quota_us").value_or(""));
    period_text = first_line(read_small_file(folder + "/cpu.cfs_period_us").value_or(""));
  }
  const auto quota = positive_number(quota_text);
  const auto period = positive_number(period_text);
  if (!quota || !period) return std::nullopt;
  return *quota / *period;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (CgroupPlace& cgroup : own_cgroups("cpu", root)) {
    while (true) {
      const auto quota = quota_in(root + cgroup.mount_point + cgroup.path, cgroup.unified);
      if (quota && (!least || *quota < *least)) least = quota;
      if (cgroup.path.empty()) break;
      cgroup.path.resize(cgroup.path.rfind('/'));  // path_below: it begins with one
    }
  }
  return least;
}

int usable_cpus(const CpuSet& allowed, std::optional<double> quota) {
  const auto count = static_cast<double>(std::max<std::size_t>(1, allowed.size()));
  return static_cast<int>(std::clamp(quota.value_or(count), 1.0, count));
}

int omp_threads(int usable, int local_workers) {
  return std::max(1, usable / std::max(1, local_workers));
}

std::vector<int> omp_threads(int usable, const std::vector<CpuSet>& sets) {
  std::map<int, int> users;
  for (const CpuSet& set : sets) {
    for (const int cpu : set) ++users[cpu];
  }
  // A quota takes from all workers alike.
  const double scale =
      std::min(1.0, static_cast<double>(usable) /
                        static_cast<double>(std::max<std::size_t>(1, users.size())));
  constexpr double kRounding = 1e-6;  // three thirds are one thread
  std::vector<int> threads;
  for (const CpuSet& set : sets) {
    double share = 0;
    for (const int cpu : set) share += 1.0 / users[cpu];
    threads.push_back(std::max(1, static_cast<int>(share * scale + kRounding)));
  }
  return threads;
}

}  // namespace ddprun::machine
