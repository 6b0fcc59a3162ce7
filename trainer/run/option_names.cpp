#include "trainer/run/option_names.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ddprun::trainer {
namespace {

constexpr std::size_t kDistanceMax = 3;  // farther ones are no help

/// Of a short name a few other letters make another word.
std::size_t distance_max(const std::string& unknown) {
  const auto letters = unknown.size() - std::min(unknown.find_first_not_of('-'), unknown.size());
  return std::min(kDistanceMax, std::max<std::size_t>(1, letters / 3));
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string with_dashes(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string result = argument;
  const auto end =
      result.begin() + static_cast<std::ptrdiff_t>(std::min(result.find('='), result.size()));
  std::replace(result.begin(), end, '_', '-');
  return result;
}

std::string nearest_name(const std::string& unknown, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = distance_max(unknown) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(name, unknown);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace ddprun::trainer
