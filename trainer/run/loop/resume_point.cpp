#include "trainer/run/loop/resume_point.hpp"

#include <algorithm>
#include <span>

namespace ddprun::trainer {
namespace {

ResumePoint::Kind kind_for(const Communicator& communicator, bool is_wanted) {
  if (!is_wanted) return ResumePoint::Kind::none;
  if (communicator.has_notes()) return ResumePoint::Kind::notes;
  return communicator.world_size() > 1 ? ResumePoint::Kind::copy : ResumePoint::Kind::none;
}

}  // namespace

void StepCounts::add_rank(const StepCounts& rank) {
  counters += rank.counters;
  step_seconds = std::max(step_seconds, rank.step_seconds);
  exposed_seconds = std::max(exposed_seconds, rank.exposed_seconds);
}

void StepCounts::add_to(TrainingState& state) const {
  state.epoch_counters += counters;
  state.epoch_seconds += step_seconds;
  state.interval.counters += counters;
  state.interval.seconds += step_seconds;
  state.interval.exposed_seconds += exposed_seconds;
}

ResumePoint::ResumePoint(Communicator& communicator, Learner& learner, TrainingState& state,
                         bool is_wanted)
    : communicator_(communicator),
      learner_(learner),
      state_(state),
      kind_(kind_for(communicator, is_wanted)) {
  met();
}

void ResumePoint::met() {
  if (kind_ == Kind::copy && (!kept_ || met_at_ != state_.step)) learner_.keep();
  if (kind_ == Kind::copy) kept_ = state_;
  met_at_ = state_.step;
}

void ResumePoint::leave_note(const StepCounts& counts) {
  const Note note{.met_at = met_at_, .counts = counts};
  communicator_.leave_note(static_cast<std::uint64_t>(state_.step + 1),
                           std::as_bytes(std::span(&note, 1)));
}

bool ResumePoint::go_back() {
  if (kind_ == Kind::copy) {
    learner_.go_back();
    state_ = *kept_;
    return true;
  }
  const std::optional<StepCounts> all =
      kind_ == Kind::notes ? read_notes() : std::optional<StepCounts>();
  if (!all) return false;
  all->add_to(state_);
  return true;
}

/// The sum over all ranks since they met: their notes are there, as the sum of the last step is.
/// Each rank that has done as many steps reads the same.
std::optional<StepCounts> ResumePoint::read_notes() const {
  StepCounts all;
  if (state_.step == met_at_) return all;
  for (int rank = 0; rank < communicator_.world_size(); ++rank) {
    Note note;
    const bool is_there = communicator_.read_note(rank, static_cast<std::uint64_t>(state_.step),
                                                  std::as_writable_bytes(std::span(&note, 1)));
    if (!is_there || note.met_at != met_at_) return std::nullopt;
    all.add_rank(note.counts);
  }
  return all;
}

}  // namespace ddprun::trainer
