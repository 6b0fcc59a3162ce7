// The options of `train` that choose model, data and initial weights. For options.cpp alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/run/option_groups.hpp"

namespace ddprun::trainer {

/// What is read before it becomes Options.
struct DataTexts {
  std::string init = "default";
  std::string positive_weight = "1";
  std::string tokens = "words";
  std::optional<std::string> crop;
  std::string normalize = "measured";
  std::optional<std::string> data_memory;
};

/// Both must outlive the parsing of `line`.
void add_data_options(CommandLine& line, Options& options, DataTexts& texts);

/// Throws DataError for values that cannot be used.
void convert_data(const DataTexts& texts, Options& options);

/// Those of the options added here.
std::vector<OptionNeed> data_needs(const Options& options);

}  // namespace ddprun::trainer
