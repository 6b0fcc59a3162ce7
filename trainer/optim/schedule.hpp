// Learning rates as pure functions of the step: nothing to save, nothing to forget on resume or
// resize.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

enum class ScheduleKind { constant, step, cosine };

/// A step is one pass over a global batch (V shards), counted from 0 and counted even if a
/// loss-scale overflow skipped the update; so neither the world size nor an overflow moves the
/// schedule.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double base_rate = 0.01;
  std::int64_t warmup_steps =
      0;  ///< step k < warmup_steps has the rate base_rate * (k + 1) / warmup_steps
  std::int64_t step_every =
      1;  ///< `step`: multiply by step_factor every so many steps, counted from step 0
  double step_factor = 0.1;
  std::int64_t total_steps = 1;  ///< `cosine`: reaches final_rate at this step and stays there
  double final_rate = 0.0;
};

/// constant: b. step: b * factor^floor(k / every) (torch StepLR). cosine, after the warm-up of w
/// steps: final + (b - final) * (1 + cos(pi * (k - w) / (total - w))) / 2 (torch
/// CosineAnnealingLR).
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace ddprun::trainer
