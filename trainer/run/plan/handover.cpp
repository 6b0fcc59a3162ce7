#include "trainer/run/plan/handover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "trainer/compute/buffer.hpp"
#include "trainer/run/plan/start.hpp"

namespace ddprun::trainer {
namespace {

std::string hashes_text(std::span<const HeldState> held) {
  std::string text;
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    if (held[rank].is_there)
      text +=
          fmt::format("{}rank {} {}", text.empty() ? "" : ", ", rank, hash_text(held[rank].hash));
  return text;
}

CommResult gather(Communicator& communicator, const HeldState& mine, std::vector<HeldState>& all,
                  std::chrono::nanoseconds timeout) {
  all.resize(static_cast<std::size_t>(communicator.world_size()));
  return communicator.all_gather(std::as_bytes(std::span(&mine, 1)),
                                 std::as_writable_bytes(std::span(all)), Clock::now() + timeout);
}

}  // namespace

std::optional<int> giving_rank(std::span<const HeldState> held) {
  std::optional<int> best;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    if (!held[rank].is_there) continue;
    const HeldState* const before = best ? &held[static_cast<std::size_t>(*best)] : nullptr;
    if (before == nullptr ||
        std::tie(held[rank].step, held[rank].epochs) > std::tie(before->step, before->epochs))
      best = static_cast<int>(rank);
  }
  return best;
}

std::vector<int> new_ranks(std::span<const HeldState> held) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    if (!held[rank].is_there) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::string why_damaged(std::span<const HeldState> held, int source) {
  const HeldState& given = held[static_cast<std::size_t>(source)];
  std::vector<HeldState> alike(held.begin(), held.end());
  bool is_damaged = false;
  for (HeldState& one : alike) {
    one.is_there = one.is_there && one.step == given.step;
    is_damaged = is_damaged || (one.is_there && one.hash != given.hash);
  }
  return is_damaged ? fmt::format("after step {} the ranks hold different weights or moments ({})",
                                  given.step, hashes_text(alike))
                    : "";
}

CommResult hand_over(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                     Learner& learner, std::chrono::nanoseconds timeout, HeldState& mine,
                     Handover& handover) {
  CommResult result = gather(communicator, mine, handover.held, timeout);
  if (!result.ok()) return result;
  const std::optional<int> source = giving_rank(handover.held);
  if (!source) return result;
  handover.source = *source;
  const HeldState& given = handover.held[static_cast<std::size_t>(*source)];
  handover.damage = why_damaged(handover.held, *source);
  const auto has_arenas = [&](const HeldState& one) {
    return one.is_there && one.step == given.step;
  };
  if (handover.damage.empty()) {
    const bool gives_arenas = !std::all_of(handover.held.begin(), handover.held.end(), has_arenas);
    const bool takes_arenas = !has_arenas(mine);
    if (takes_arenas) mine.is_there = false;
    TrainingState taken = state;
    taken.step_state = learner.step_state();
    result =
        distribute(communicator, plan, taken, learner, timeout,
                   {.root = *source, .gives_arenas = gives_arenas, .takes_arenas = takes_arenas});
    if (!result.ok()) return result;
    if (takes_arenas) learner.set_step_state(taken.step_state);
    // A rank that has taken none knows its own already.
    HeldState now{.is_there = true, .step = taken.step, .epochs = given.epochs, .hash = mine.hash};
    if (takes_arenas) now.hash = learner.hash_of_all();
    state = std::move(taken);
    if (gives_arenas) {
      std::vector<HeldState> all;
      result = gather(communicator, now, all, timeout);
      if (!result.ok()) return result;
      handover.damage = why_damaged(all, *source);
    }
    mine = now;
  }
  if (!handover.damage.empty()) mine.is_there = false;
  return result;
}

}  // namespace ddprun::trainer
