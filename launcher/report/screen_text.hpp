// What others wrote, made fit for a terminal; numbers with their noun. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddprun::launcher {

/// How much of one text a report shows.
inline constexpr std::size_t kTextBytesShown = 400;

/// The text as one line of at most `bytes_max` bytes, and three more where it was cut: `...`.
/// Line ends and tabs become blanks; escape sequences are left out (colours, titles); control
/// characters and what is no UTF-8 become `?`.
std::string on_screen(std::string_view text, std::size_t bytes_max);

/// `things` where the plural is not `thing` and an s.
inline std::string counted(int count, std::string_view thing, std::string_view things = "") {
  if (count != 1 && !things.empty()) return fmt::format("{} {}", count, things);
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

inline std::string ranks_text(const std::vector<int>& list) {
  return fmt::format("{} {}", list.size() == 1 ? "rank" : "ranks", fmt::join(list, ", "));
}

}  // namespace ddprun::launcher
