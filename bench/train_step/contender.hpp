// The two sides of the race.
#pragma once

#include <string>

#include "bench/train_step/cases.hpp"
#include "bench/train_step/ranks.hpp"

namespace ddprun::bench {

struct Race {
  const Case& one;
  std::string precision;  ///< fp32 or bf16
  int ranks = 1;
  std::string folder;  ///< of the data set, and for what the processes write
};

/// `train` from the folder of this program. Throws std::runtime_error.
StepFigures run_ours(const Race& race);
/// Share of our wall time that is spent in oneDNN's primitives, as oneDNN itself prints it; one
/// rank.
double library_share(const Race& race);

/// pytorch_step.py under this interpreter. Throws std::runtime_error.
StepFigures run_pytorch(const Race& race, const std::string& python);
/// The version, e.g. "2.15.0, MKL"; empty: `python` cannot import torch.
std::string pytorch_version(const std::string& python);

/// Steps before the measured ones.
int warm_steps(const Case& one);

}  // namespace ddprun::bench
