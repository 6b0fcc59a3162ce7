// A learning rate that falls when the loss no longer does:
// torch.optim.lr_scheduler.ReduceLROnPlateau with mode "min", a relative threshold and no cooldown.
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

}  // namespace ddprun::trainer
