// What the files of the groups of options share. For those alone.
#pragma once

#include <array>
#include <cstdint>

#include "texts/cli/command_line.hpp"
#include "trainer/run/options.hpp"

namespace ddprun::trainer {

inline constexpr int kManyMax = 1'000'000;
inline constexpr double kRateMax = 1e6;
inline constexpr std::int64_t kStepsMax = std::int64_t{1} << 60;

constexpr auto words_for(Precision) {
  using enum Precision;
  return std::array{Word{fp32, "fp32"}, Word{tf32, "tf32"}, Word{bf16, "bf16"}, Word{fp16, "fp16"}};
}

/// An option that would do nothing beside the others, unless `is_met`.
struct OptionNeed {
  const char* option;
  bool is_met;
  const char* what;  ///< that it needs
};

}  // namespace ddprun::trainer
