#include "agent/control/leftovers.hpp"

#include <algorithm>

namespace ddprun::agent {

Leftovers::Step Leftovers::end(Step step) {
  phase_ = step == Step::kill ? Phase::killing : Phase::over;
  deadline_.reset();
  return step;
}

Leftovers::Step Leftovers::begin(bool any, std::optional<Clock::duration> patience,
                                 Clock::time_point now) {
  if (begun()) return Step::nothing;
  if (!any) return end(Step::over);
  if (patience && *patience <= Clock::duration::zero()) return end(Step::kill);
  phase_ = Phase::settling;
  patience_ = patience;
  deadline_ = now + kSettle;
  return Step::nothing;
}

Leftovers::Step Leftovers::gone() { return waiting() ? end(Step::over) : Step::nothing; }

Leftovers::Step Leftovers::kill_now() { return waiting() ? end(Step::kill) : Step::nothing; }

void Leftovers::end_patience(Clock::time_point now) {
  if (!waiting()) return;
  patience_.reset();
  deadline_ = std::min(*deadline_, now + kSettle);
}

void Leftovers::killed() {
  if (killing()) phase_ = Phase::over;
}

Leftovers::Step Leftovers::deadline_passed(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return Step::nothing;
  if (phase_ == Phase::terminated || !patience_) return end(Step::kill);
  phase_ = Phase::terminated;
  deadline_ = now + *patience_;
  return Step::terminate;
}

}  // namespace ddprun::agent
