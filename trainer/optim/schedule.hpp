// Learning rates as pure functions of the step: nothing to save, nothing to forget on resume or
// resize. `plateau` alone has a state, which plateau.hpp changes after an epoch.
#pragma once

#include <cstdint>

#include "trainer/optim/plateau.hpp"

namespace ddprun::trainer {

enum class ScheduleKind {
  constant,
  step,
  cosine,
  linear,   ///< falls to 0
  plateau,  ///< falls when the loss no longer does (plateau.hpp)
};

/// A step is one pass over a global batch (V shards), counted from 0 and counted even if a
/// loss-scale overflow skipped the update; so neither the world size nor an overflow moves the
/// schedule.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double base_rate = 0.01;
  /// Step k < warmup_steps has the rate base_rate * (k + warmup_begin) / warmup_steps.
  std::int64_t warmup_steps = 0;
  int warmup_begin = 0;  ///< 0, as in transformers: step 0 changes no weight; or 1
  /// `step`: multiply by step_factor every so many steps, counted from step 0.
  std::int64_t step_every = 1;
  double step_factor = 0.1;
  /// `cosine` reaches final_rate at this step and stays there, `linear` 0.
  std::int64_t total_steps = 1;
  double final_rate = 0.0;
  PlateauRule plateau = {};
};

/// constant: b. step: b * factor^floor(k / every) (torch StepLR). cosine, after the warm-up of w
/// steps: final + (b - final) * (1 + cos(pi * (k - w) / (total - w))) / 2 (torch
/// CosineAnnealingLR). linear, after the warm-up: b * (total - k) / (total - w) (torch LinearLR
/// from 1 to 0). plateau: b * `share`, PlateauState's; the others take no notice of it. With
/// warmup_begin 0 constant, cosine to 0 and linear are transformers' get_..._schedule_with_warmup.
double learning_rate(const Schedule& schedule, std::int64_t step, double share = 1);

}  // namespace ddprun::trainer
