// The options of `train` that choose optimizer, learning rate and precision. For options.cpp alone.
#pragma once

#include <string>
#include <vector>

#include "trainer/run/option_groups.hpp"

namespace ddprun::trainer {

/// What is read before it becomes Options.
struct OptimizerTexts {
  std::string warmup = "0";
  std::string betas = "0.9,0.999";
  std::string loss_scale = "dynamic";
};

/// Both must outlive the parsing of `line`.
void add_optimizer_options(CommandLine& line, Options& options, OptimizerTexts& texts);

/// Throws DataError for values that cannot be used.
void convert_optimizer(const OptimizerTexts& texts, Options& options);

/// Those of the options added here.
std::vector<OptionNeed> optimizer_needs(const Options& options);

}  // namespace ddprun::trainer
