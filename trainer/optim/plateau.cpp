#include "trainer/optim/plateau.hpp"

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

}  // namespace ddprun::trainer
