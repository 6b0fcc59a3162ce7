#include "agent/placement/usable_cpus.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "agent/placement/small_file.hpp"

namespace ddprun::agent {
namespace {

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const auto end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

bool has_piece(std::string_view list, std::string_view wanted) {
  const auto pieces = split_at(list, ',');
  return std::find(pieces.begin(), pieces.end(), wanted) != pieces.end();
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// Blanks and the like stand in mountinfo as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct CgroupMount {
  std::string root;  ///< the cgroup that is shown at the mount point
  std::string mount_point;
  bool unified = true;
};

/// Mounts of version 2, and those of version 1 with the controller `cpu`.
std::vector<CgroupMount> cgroup_mounts(std::string_view mountinfo_text) {
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : split_at(mountinfo_text, '\n')) {
    // id parent device root mount-point options optional-fields... - type source super-options
    const auto words = split_at(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const bool unified = dash[1] == "cgroup2";
    if (!unified && (dash[1] != "cgroup" || !has_piece(dash[3], "cpu"))) continue;
    mounts.push_back({unescaped(words[3]), unescaped(words[4]), unified});
  }
  return mounts;
}

/// The path of `cgroup` seen from the mount; none when the mount shows another part of the tree.
std::optional<std::string> path_below(std::string_view cgroup, std::string_view mount_root) {
  if (mount_root == "/") mount_root = "";
  if (!cgroup.starts_with(mount_root)) return std::nullopt;
  cgroup.remove_prefix(mount_root.size());
  if (cgroup == "/") cgroup = "";
  // `..` is how a process outside of its cgroup namespace is shown.
  if ((!cgroup.empty() && cgroup.front() != '/') || cgroup.find("/..") != std::string_view::npos)
    return std::nullopt;
  return std::string(cgroup);
}

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

std::vector<CpuCgroup> cpu_cgroups(std::string_view cgroup_text, std::string_view mountinfo_text) {
  std::vector<CpuCgroup> found;
  const std::vector<CgroupMount> mounts = cgroup_mounts(mountinfo_text);
  for (const std::string_view line : split_at(cgroup_text, '\n')) {
    // hierarchy:controllers:path, and the path may contain colons; version 2 is `0::path`.
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !has_piece(controllers, "cpu")) continue;
    std::optional<CpuCgroup> best;
    for (const CgroupMount& mount : mounts) {
      if (mount.unified != unified) continue;
      const auto path = path_below(line.substr(second + 1), mount.root);
      if (path) {
        best = CpuCgroup{mount.mount_point, *path, unified};
        break;
      }
      // A container often shows its own cgroup at the mount point, under a name from outside.
      if (!best) best = CpuCgroup{mount.mount_point, "", unified};
    }
    if (best) found.push_back(std::move(*best));
  }
  return found;
}

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  const auto cgroup_text = read_small_file(root + "/proc/self/cgroup");
  const auto mountinfo_text = read_small_file(root + "/proc/self/mountinfo");
  if (!cgroup_text || !mountinfo_text) return std::nullopt;
  std::optional<double> least;
  for (CpuCgroup& cgroup : cpu_cgroups(*cgroup_text, *mountinfo_text)) {
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

}  // namespace ddprun::agent
