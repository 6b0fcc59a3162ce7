// From where a worker goes on when another rank dies: the last step that is whole on this rank,
// with what all ranks have counted until then.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/compute/counters.hpp"
#include "trainer/optim/learner.hpp"

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

/// Where ranks share memory, that is the last step: each rank leaves its counts there with each
/// step. Elsewhere it is the step after which the ranks last met, as only then a sum is known to
/// have come: a copy is kept of it.
class ResumePoint {
 public:
  enum class Kind { none, notes, copy };

  /// The ranks have just met. `is_wanted`: false: this worker never goes on. All outlive the point;
  /// for a copy the learner has made room.
  ResumePoint(Communicator& communicator, Learner& learner, TrainingState& state, bool is_wanted);

  [[nodiscard]] Kind kind() const { return kind_; }
  /// The ranks have exchanged what they had counted.
  void met();
  /// What this rank has counted since, with the step in hand, before the sum of that step is
  /// finished. Only where there are notes.
  void leave_note(const StepCounts& counts);
  /// A rank is gone. Brings state and learner back to the point. False: there is none.
  [[nodiscard]] bool go_back();

 private:
  struct Note {
    std::int64_t met_at = 0;
    StepCounts counts;
  };
  static_assert(sizeof(Note) <= kNoteBytes);

  [[nodiscard]] std::optional<StepCounts> read_notes() const;

  Communicator& communicator_;
  Learner& learner_;
  TrainingState& state_;
  Kind kind_;
  std::int64_t met_at_ = 0;
  std::optional<TrainingState> kept_;  // of Kind::copy
};

}  // namespace ddprun::trainer
