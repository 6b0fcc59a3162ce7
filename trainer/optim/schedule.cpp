#include "trainer/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddprun::trainer {

PlateauState after_epoch(const PlateauRule& rule, PlateauState state, double loss,
                         double base_rate) {
  if (loss < state.best * (1 - rule.threshold)) {
    state.best = loss;
    state.bad_epochs = 0;
  } else {
    ++state.bad_epochs;
  }
  if (state.bad_epochs <= rule.patience) return state;
  state.bad_epochs = 0;
  const double lower = state.share * rule.factor;
  if (base_rate * (state.share - lower) > rule.least_change) state.share = lower;
  return state;
}

double learning_rate(const Schedule& schedule, std::int64_t step, double share) {
  if (schedule.kind != ScheduleKind::plateau) share = 1;
  if (step < schedule.warmup_steps) {
    return schedule.base_rate * share * static_cast<double>(step + schedule.warmup_begin) /
           static_cast<double>(schedule.warmup_steps);
  }
  const auto after_warmup =
      static_cast<double>(std::max<std::int64_t>(schedule.total_steps - schedule.warmup_steps, 1));
  const double done =
      std::min(static_cast<double>(step - schedule.warmup_steps) / after_warmup, 1.0);
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return schedule.base_rate;
    case ScheduleKind::step: {
      const std::int64_t drops = step / std::max<std::int64_t>(schedule.step_every, 1);
      return schedule.base_rate * std::pow(schedule.step_factor, static_cast<double>(drops));
    }
    case ScheduleKind::cosine:
      return schedule.final_rate + (schedule.base_rate - schedule.final_rate) *
                                       (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
    case ScheduleKind::linear:
      return schedule.base_rate * (1.0 - done);
    case ScheduleKind::plateau:
      return schedule.base_rate * share;
  }
  return schedule.base_rate;
}

}  // namespace ddprun::trainer
