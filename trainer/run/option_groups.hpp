// The options of `train` by the groups of its help, for options.cpp alone.
#pragma once

#include <array>
#include <string>

#include "base/cli/command_line.hpp"
#include "trainer/run/options.hpp"

namespace ddprun::trainer {

inline constexpr int kManyMax = 1'000'000;
inline constexpr double kRateMax = 1e6;
inline constexpr std::int64_t kStepsMax = std::int64_t{1} << 60;

constexpr auto words_for(Precision) {
  using enum Precision;
  return std::array{Word{fp32, "fp32"}, Word{bf16, "bf16"}, Word{fp16, "fp16"}};
}

/// What is read before it becomes Options.
struct OptimizerTexts {
  std::string warmup = "0";
  std::string betas = "0.9,0.999";
  std::string loss_scale = "dynamic";
};

/// The group "Optimizer". `options` and `texts` must outlive the parsing.
void add_optimizer_options(CommandLine& line, Options& options, OptimizerTexts& texts);

/// Throws DataError that names the option.
void convert_optimizer_texts(const OptimizerTexts& texts, Options& options);

}  // namespace ddprun::trainer
