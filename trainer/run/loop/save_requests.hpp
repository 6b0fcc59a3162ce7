// How the ranks meet ddprun's requests for a checkpoint, after which the run goes on:
// docs/progress.md, "Save and go on". Whichever rank is asked, rank 0 writes it, and the rank has
// met its request once a state of that step or a later one is on disk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainer/checkpoint/checkpoint_keeper.hpp"
#include "trainer/run/loop/progress.hpp"

namespace ddprun::trainer {

/// What each rank tells the others.
struct SaveWord {
  std::int64_t wanted = -1;   ///< a state of this step is to be on disk, or a later one; -1: none
  std::int64_t on_disk = -1;  ///< of rank 0: the step of the newest state there; -1: none
};

class SaveRequests {
 public:
  /// From the next step on ddprun counts on this rank, unless no checkpoints are written. The
  /// reference is borrowed.
  SaveRequests(Progress& progress, const CheckpointEvery& every)
      : progress_(progress), has_checkpoints_(every.kind != CheckpointEvery::Kind::off) {
    newest();
  }

  /// After `step` steps. `keeper`: rank 0's; null on others.
  SaveWord word(std::int64_t step, CheckpointKeeper* keeper) {
    const std::uint32_t number = newest();
    if (number != 0 && number != number_) wanted_ = step;
    number_ = number;
    return {.wanted = number != 0 ? wanted_ : -1,
            .on_disk = keeper != nullptr ? keeper->step_on_disk() : -1};
  }
  /// The words of all ranks, which each has as `save`.
  template <class Ranks>
  void hear(const Ranks& ranks) {
    asked_for_ = -1;
    for (const auto& rank : ranks) asked_for_ = std::max(asked_for_, rank.save.wanted);
    if (number_ != 0 && ranks[0].save.on_disk >= wanted_)
      progress_.saved(std::exchange(number_, 0));
  }
  /// A state of this step is to be on disk, or a later one, for some rank has been asked; -1: none.
  [[nodiscard]] std::int64_t asked_for() const { return asked_for_; }
  /// The last state is on disk.
  void meet_all() {
    if (const std::uint32_t number = newest(); number != 0) progress_.saved(number);
  }

 private:
  std::uint32_t newest() { return has_checkpoints_ ? progress_.save_requested() : 0; }

  Progress& progress_;
  const bool has_checkpoints_;
  std::uint32_t number_ = 0;  // the request that is to be met; 0: none
  std::int64_t wanted_ = -1;  // a state of this step meets it
  std::int64_t asked_for_ = -1;
};

}  // namespace ddprun::trainer
