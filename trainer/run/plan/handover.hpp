// How the ranks of a round come to one state where some of them were kept from the round before:
// which rank gives its state, and whether what all hold then is the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {

/// What a rank holds at the start of a round.
struct HeldState {
  bool is_there = false;
  std::int64_t step = 0;    ///< after so many steps
  std::int64_t epochs = 0;  ///< that were evaluated
  std::uint64_t hash = 0;   ///< Learner::hash_of_all()
};

/// The rank that gives its state: of those with the most steps, then the most epochs, the first.
/// None: no rank has a state. Pure.
std::optional<int> giving_rank(std::span<const HeldState> held);

/// Ranks without a state: they have just been started. Pure.
std::vector<int> new_ranks(std::span<const HeldState> held);

/// Why the state of `source` cannot be relied upon: another rank has done as many steps and holds
/// other bits. Empty: none has. Pure.
std::string why_damaged(std::span<const HeldState> held, int source);

/// What follows from it for all ranks.
struct Handover {
  std::vector<HeldState> held;  ///< by rank, before it
  int source = -1;              ///< -1: no rank has a state
  std::string damage;           ///< ranks and hashes; empty: all hold the same now
};

/// Gives the newest state to all ranks. Throws DataError as distribute() does. `mine`: of this
/// rank; its `is_there` is false from the moment on at which the state is overwritten until it is
/// whole again, and in the end where the states are not the same.
CommResult hand_over(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                     Learner& learner, std::chrono::nanoseconds timeout, HeldState& mine,
                     Handover& handover);

}  // namespace ddprun::trainer
