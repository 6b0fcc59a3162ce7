#include "trainer/run/statistic_ranges.hpp"

namespace ddprun::trainer {

std::vector<Range> statistic_ranges(std::span<const Parameter> parameters) {
  std::vector<Range> ranges;
  bool is_neighbour = false;
  for (const Parameter& one : parameters) {
    const bool is_statistic = one.role == ParameterRole::statistic;
    const std::size_t end = one.offset + one.count;
    if (is_statistic && is_neighbour) {
      ranges.back().end = end;
    } else if (is_statistic) {
      ranges.push_back({one.offset, end});
    }
    is_neighbour = is_statistic;
  }
  return ranges;
}

}  // namespace ddprun::trainer
