// What the ranks count between two exchanges, so that it outlives each of them: a rank that has
// died has left it to the others with each step.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/compute/counters.hpp"

namespace ddprun::trainer {

/// Counts of one rank, or of all together: the seconds are then those of the slowest.
struct StepCounts {
  Counters counters;
  double step_seconds = 0;
  double exposed_seconds = 0;

  void add_rank(const StepCounts& rank);
  /// To what the state has counted of the epoch and the interval.
  void add_to(TrainingState& state) const;
};

class StepNotes {
 public:
  /// `are_kept`: false where no note is ever left. The ranks have met after `step` steps. The
  /// communicator outlives the notes.
  StepNotes(Communicator& communicator, bool are_kept, std::int64_t step)
      : communicator_(communicator),
        are_kept_(are_kept && communicator.has_notes()),
        met_at_(step) {}

  [[nodiscard]] bool are_kept() const { return are_kept_; }
  /// The ranks have exchanged what they had counted after so many steps.
  void met(std::int64_t step) { met_at_ = step; }
  /// What this rank has counted since, with the step after which `step` are done, before the sum of
  /// that step is finished.
  void leave(std::int64_t step, const StepCounts& counts);
  /// What all ranks have counted since they met, if `step` steps are done: then their notes are
  /// there. Each rank that has done as many gets the same.
  [[nodiscard]] std::optional<StepCounts> read_all(std::int64_t step) const;

 private:
  struct Note {
    std::int64_t met_at = 0;
    StepCounts counts;
  };
  static_assert(sizeof(Note) <= kNoteBytes);

  Communicator& communicator_;
  bool are_kept_;
  std::int64_t met_at_;
};

}  // namespace ddprun::trainer
