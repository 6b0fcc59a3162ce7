// How one rank meets ddprun's requests for a checkpoint, after which the run goes on:
// docs/progress.md, "Save and go on".
#pragma once

#include <cstdint>

#include "trainer/checkpoint/checkpoint_keeper.hpp"
#include "trainer/run/loop/progress.hpp"

namespace ddprun::trainer {

class SaveRequests {
 public:
  /// From the next step on ddprun counts on this rank, unless no checkpoints are written. `keeper`:
  /// rank 0's; null on others, which have nothing to write. All references are borrowed.
  SaveRequests(Progress& progress, CheckpointKeeper* keeper, const CheckpointEvery& every)
      : progress_(progress),
        keeper_(keeper),
        has_checkpoints_(every.kind != CheckpointEvery::Kind::off) {
    newest();
  }

  /// Whether a checkpoint of the state as it is now is to be taken for a request.
  [[nodiscard]] bool are_new() {
    const std::uint32_t number = newest();
    return number != 0 && number != taken_;
  }
  /// The keeper, where there is one, was offered the state. It may have been busy with another one:
  /// then the request waits. Tells ddprun once a checkpoint that was taken is on disk.
  void offered(const TrainingState& state) {
    const std::uint32_t number = newest();
    if (number == 0) return;
    if (keeper_ == nullptr || keeper_->has_taken(state)) taken_ = number;
    if (number == taken_ && (keeper_ == nullptr || keeper_->is_written())) progress_.saved(number);
  }

 private:
  std::uint32_t newest() { return has_checkpoints_ ? progress_.save_requested() : 0; }

  Progress& progress_;
  CheckpointKeeper* const keeper_;
  const bool has_checkpoints_;
  std::uint32_t taken_ = 0;  // the request for which the keeper has taken a checkpoint
};

}  // namespace ddprun::trainer
