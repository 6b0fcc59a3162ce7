// What the files of the groups of options share. For those alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "texts/cli/command_line.hpp"
#include "trainer/run/cli/options.hpp"

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
