// Learning rates as pure functions of the step: nothing to save, nothing to forget on resume or
// resize. `plateau` alone has a state, PlateauState, which changes after an epoch.
#pragma once

#include <cstdint>
#include <limits>

namespace ddprun::trainer {

struct PlateauRule {
  double factor = 0.1;         ///< what the rate is multiplied by
  std::int64_t patience = 10;  ///< epochs without a better loss that are let pass
  double threshold = 1e-4;     ///< a better loss is below best * (1 - threshold)
  double least_change = 1e-8;  ///< a rate that would fall by less stays (torch's eps)
};

/// What it remembers from epoch to epoch: no part of a checkpoint, as the losses of all epochs are.
struct PlateauState {
  double best = std::numeric_limits<double>::infinity();
  std::int64_t bad_epochs = 0;  ///< in a row, since the best loss or the last reduction
  double share = 1;             ///< of the base rate, in use now
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};

/// The state after an epoch with this loss. `base_rate` is that of the schedule. A loss that is nan
/// is not better. Pure.
PlateauState after_epoch(const PlateauRule& rule, PlateauState state, double loss,
                         double base_rate);

enum class ScheduleKind {
  constant,
  step,
  cosine,
  linear,   ///< falls to 0
  plateau,  ///< falls when the loss no longer does (PlateauRule)
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
