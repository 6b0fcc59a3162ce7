#include "texts/suggest.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun {
namespace {

// Longer words are never typed by accident, and the cost grows with the square.
constexpr std::size_t kWordBytesMax = 64;

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const auto width = b.size() + 1;
  std::vector<int> before(width), previous(width), current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kWordBytesMax) return std::nullopt;
  const int limit = std::max(1, static_cast<int>(word.size()) / 3);
  const std::string* best = nullptr;
  int best_distance = limit + 1;
  for (const auto& candidate : candidates) {
    if (candidate.size() > kWordBytesMax) continue;
    const bool is_longer = word.size() >= 3 && candidate.starts_with(word);
    // "gpu" is not "cpu" mistyped.
    const bool is_other = word.size() <= 3 && !candidate.starts_with(word.front());
    const int distance = is_longer ? 1 : is_other ? limit + 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace ddprun
