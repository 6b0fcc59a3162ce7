#include "machine/cgroups/memory_kills.hpp"

#include <charconv>

#include "base/small_file.hpp"

namespace ddprun::machine {
namespace {

/// The path of our cgroup in the one hierarchy of version 2; none: there is none.
std::optional<std::string> unified_cgroup(const std::string& root) {
  const auto text = read_small_file(root + "/proc/self/cgroup");
  if (!text) return std::nullopt;
  const auto at = text->starts_with("0::") ? 0 : text->find("\n0::");
  if (at == std::string::npos) return std::nullopt;
  const auto begin = text->find("::", at) + 2;
  return text->substr(begin, text->find('\n', begin) - begin);
}

}  // namespace

std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
      const auto digits = line.substr(name.size() + 1);
      std::uint64_t value = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{})
        return value;
      return std::nullopt;
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> memory_kill_count(const std::string& root) {
  if (const auto cgroup = unified_cgroup(root)) {
    if (const auto text = read_small_file(root + "/sys/fs/cgroup" + *cgroup + "/memory.events")) {
      if (const auto count = counter_in(*text, "oom_kill")) return count;
    }
  }
  const auto text = read_small_file(root + "/proc/vmstat");
  return text ? counter_in(*text, "oom_kill") : std::nullopt;
}

}  // namespace ddprun::machine
