// "Did you mean": the nearest of some known words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into
/// `b` (a place changed once is not changed again).
int edit_distance(std::string_view a, std::string_view b);

/// The nearest candidate, if it is near enough to be what was meant: a third of the word's length,
/// but at least 1. The first of several equally near ones. A candidate that begins with the word
/// counts as one change away.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace ddprun
