#include "base/cgroup_places.hpp"

#include <algorithm>
#include <optional>

#include "base/small_file.hpp"

namespace ddprun {
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

/// Mounts of version 2, and those of version 1 with this controller.
std::vector<CgroupMount> cgroup_mounts(std::string_view mountinfo_text,
                                       std::string_view controller) {
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : split_at(mountinfo_text, '\n')) {
    // id parent device root mount-point options optional-fields... - type source super-options
    const auto words = split_at(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const bool unified = dash[1] == "cgroup2";
    if (!unified && (dash[1] != "cgroup" || !has_piece(dash[3], controller))) continue;
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

}  // namespace

std::vector<CgroupPlace> cgroup_places(std::string_view controller, std::string_view cgroup_text,
                                       std::string_view mountinfo_text) {
  std::vector<CgroupPlace> found;
  const std::vector<CgroupMount> mounts = cgroup_mounts(mountinfo_text, controller);
  for (const std::string_view line : split_at(cgroup_text, '\n')) {
    // hierarchy:controllers:path, and the path may contain colons; version 2 is `0::path`.
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !has_piece(controllers, controller)) continue;
    std::optional<CgroupPlace> best;
    for (const CgroupMount& mount : mounts) {
      if (mount.unified != unified) continue;
      const auto path = path_below(line.substr(second + 1), mount.root);
      if (path) {
        best = CgroupPlace{mount.mount_point, *path, unified};
        break;
      }
      // A container often shows its own cgroup at the mount point, under a name from outside.
      if (!best) best = CgroupPlace{mount.mount_point, "", unified};
    }
    if (best) found.push_back(std::move(*best));
  }
  return found;
}

std::vector<CgroupPlace> own_cgroups(std::string_view controller, const std::string& root) {
  const auto cgroup_text = read_small_file(root + "/proc/self/cgroup");
  const auto mountinfo_text = read_small_file(root + "/proc/self/mountinfo");
  if (!cgroup_text || !mountinfo_text) return {};
  return cgroup_places(controller, *cgroup_text, *mountinfo_text);
}

}  // namespace ddprun
