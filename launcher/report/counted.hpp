// `1 restart`, `2 restarts`; `rank 1`, `ranks 1, 2`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddprun::launcher {

/// `things` where the plural is not `thing` and an s.
inline std::string counted(int count, std::string_view thing, std::string_view things = "") {
  if (count != 1 && !things.empty()) return fmt::format("{} {}", count, things);
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

inline std::string ranks_text(const std::vector<int>& list) {
  return fmt::format("{} {}", list.size() == 1 ? "rank" : "ranks", fmt::join(list, ", "));
}

}  // namespace ddprun::launcher
