#include "launcher/report/stacks_text.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "agent/progress/stack_methods.hpp"
#include "launcher/report/counted.hpp"
#include "launcher/report/screen_text.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kLinesShown = 30;
constexpr std::size_t kLineBytesShown = 160;

}  // namespace

/// /proc has no stacks, only the state of each thread.
std::string stacks_text(std::string_view owner, const std::vector<std::string>& stacks) {
  if (stacks.empty()) return "";
  const agent::FirstThread first = agent::first_thread_of_python(stacks);
  const std::size_t shown = std::min(first.lines, kLinesShown);
  const std::string_view what = stacks.front().starts_with("from /proc") ? "threads" : "stacks";
  const std::string title =
      owner.empty() ? fmt::format("its {}", what) : fmt::format("the {} of {}", what, owner);
  std::string text =
      fmt::format("ddprun: {}, {}\n", title, on_screen(stacks.front(), kTextBytesShown));
  for (std::size_t i = 1; i < shown; ++i)
    text += "    " + on_screen(stacks[i], kLineBytesShown) + "\n";
  if (shown < first.lines) {
    text +=
        fmt::format("    ... and {} more lines, which --report=FILE has\n", stacks.size() - shown);
  } else if (first.other_threads > 0) {
    text += fmt::format("    ... and {}, which --report=FILE has\n",
                        counted(static_cast<int>(first.other_threads), "more thread"));
  }
  return text;
}

}  // namespace ddprun::launcher
