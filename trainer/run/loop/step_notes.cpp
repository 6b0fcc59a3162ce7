#include "trainer/run/loop/step_notes.hpp"

#include <algorithm>
#include <span>

namespace ddprun::trainer {

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

void StepNotes::leave(std::int64_t step, const StepCounts& counts) {
  const Note note{.met_at = met_at_, .counts = counts};
  communicator_.leave_note(static_cast<std::uint64_t>(step), std::as_bytes(std::span(&note, 1)));
}

std::optional<StepCounts> StepNotes::read_all(std::int64_t step) const {
  StepCounts all;
  if (step == met_at_) return all;
  for (int rank = 0; rank < communicator_.world_size(); ++rank) {
    Note note;
    const bool is_there = communicator_.read_note(rank, static_cast<std::uint64_t>(step),
                                                  std::as_writable_bytes(std::span(&note, 1)));
    if (!is_there || note.met_at != met_at_) return std::nullopt;
    all.add_rank(note.counts);
  }
  return all;
}

}  // namespace ddprun::trainer
