// `1 restart`, `2 restarts`.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ddprun::launcher {

/// `things` where the plural is not `thing` and an s.
inline std::string counted(int count, std::string_view thing, std::string_view things = "") {
  if (count != 1 && !things.empty()) return fmt::format("{} {}", count, things);
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace ddprun::launcher
