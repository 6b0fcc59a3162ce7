#include "trainer/run/statistic_ranges.hpp"

#include <catch2/catch.hpp>
#include <utility>

namespace ddprun::trainer {
namespace {

Parameter parameter(std::size_t offset, std::size_t count, bool is_statistic) {
  Parameter one;
  one.offset = offset;
  one.count = count;
  one.role = is_statistic ? ParameterRole::statistic : ParameterRole::weight;
  return one;
}

TEST_CASE("statistics side by side are one range, and weights end it") {
  const std::vector<Parameter> parameters{parameter(0, 10, false), parameter(16, 3, true),
                                          parameter(32, 3, true), parameter(48, 3, false),
                                          parameter(64, 5, true)};
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const Range& one : statistic_ranges(parameters)) ranges.emplace_back(one.begin, one.end);
  CHECK(ranges == std::vector<std::pair<std::size_t, std::size_t>>{{16, 35}, {64, 69}});
  CHECK(statistic_ranges({}).empty());
}

}  // namespace
}  // namespace ddprun::trainer
