// The two sides of the race.
#pragma once

#include <cstdint>
#include <string>

#include "bench/train_step/cases.hpp"

namespace ddprun::bench {

struct Race {
  const Case& one;
  std::string precision;  ///< fp32 or bf16
  int ranks = 1;
  std::string folder;  ///< of the data set, and for what the processes write
};

/// Of one step: means over the measured ones.
struct StepFigures {
  double cpu_ms = 0;             ///< of one rank: the mean of all
  double wall_ms = 0;            ///< of rank 0
  std::uint64_t peak_bytes = 0;  ///< of rank 0, until the end of the measurement
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
