// Which rank gives its state, what is found to be damaged, and that all hold the same afterwards.
#include "trainer/run/plan/handover.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/trainer/comm/rank_groups.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/run/plan/small_plan.hpp"
#include "trainer/run/plan/start.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

constexpr std::chrono::seconds kHandoverTimeout(60);

HeldState held(std::int64_t step, std::uint64_t hash = 1, std::int64_t epochs = 0) {
  return {.is_there = true, .step = step, .epochs = epochs, .hash = hash};
}

TEST_CASE("the rank with the most steps gives its state, of several the first") {
  CHECK(giving_rank(std::vector<HeldState>{}) == std::nullopt);
  CHECK(giving_rank(std::vector<HeldState>(3)) == std::nullopt);
  CHECK(giving_rank(std::vector{HeldState{}, held(4), held(5), held(5)}) == 2);
  CHECK(giving_rank(std::vector{held(5), held(5, 1, 1), held(4, 1, 2)}) == 1);
  CHECK(new_ranks(std::vector{HeldState{}, held(4), HeldState{}}) == std::vector{0, 2});
}

TEST_CASE("ranks that have done as many steps and hold other bits are damaged") {
  CHECK(why_damaged(std::vector{held(5, 7), HeldState{}, held(5, 7), held(4, 8)}, 0).empty());
  const std::string why = why_damaged(std::vector{held(5, 7), held(4, 8), held(5, 9)}, 0);
  CHECK_THAT(why, Contains("after step 5") && Contains("rank 0 0000000000000007") &&
                      Contains("rank 2 0000000000000009") && !Contains("rank 1"));
}

/// What each of three ranks has in the end. Rank 1 is new, rank 2 a step behind rank 0.
struct After {
  std::array<HeldState, 3> mine;
  std::array<Handover, 3> handover;
  std::array<std::uint64_t, 3> hash{};
  std::array<TrainingState, 3> state;
  std::array<bool, 3> is_done{};
};

/// `change`: of rank 2, before.
After hand_over_to_all(const std::function<void(HeldState&)>& change) {
  const Graph graph = test::small_graph();
  After after;
  const auto body = [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const TrainPlan plan = test::small_plan(3, communicator.rank());
    Learner learner(graph, test::host(), {.optimizer = {.kind = OptimizerKind::adamw}});
    TrainingState state = fresh_state(plan);
    HeldState& mine = after.mine[rank];
    if (rank != 1) {
      for (std::size_t i = 0; i < learner.arenas(); ++i)
        learner.copy_in(i, std::vector<float>(learner.arena_size(), static_cast<float>(rank + i)));
      state.step = rank == 0 ? 5 : 4;
      StepState steps;
      steps.updates = static_cast<std::uint64_t>(state.step);
      learner.set_step_state(steps);
      mine = {.is_there = true, .step = state.step, .hash = learner.hash_of_all()};
      if (rank == 2) change(mine);
    }
    after.is_done[rank] =
        hand_over(communicator, plan, state, learner, kHandoverTimeout, mine, after.handover[rank])
            .ok();
    after.hash[rank] = learner.hash_of_all();
    after.state[rank] = state;
  };
  const auto problems = test::run_group({.kind = test::GroupKind::shared_memory,
                                         .world_size = 3,
                                         .shards = 3,
                                         .arena_floats = graph.arena_size()},
                                        body);
  CHECK(problems == std::vector<std::string>{});
  return after;
}

TEST_CASE("all ranks hold the state of the rank that has come furthest") {
  const After after = hand_over_to_all([](HeldState&) {});
  for (std::size_t rank = 0; rank < 3; ++rank) {
    INFO("rank " << rank);
    CHECK(after.is_done[rank]);
    CHECK(after.handover[rank].source == 0);
    CHECK(after.handover[rank].damage == "");
    CHECK(after.hash[rank] == after.hash[0]);
    CHECK(after.mine[rank].is_there);
    CHECK(after.state[rank].step == 5);
    CHECK(after.state[rank].step_state.updates == 5);
    CHECK(after.state[rank].origin.lineage == after.state[0].origin.lineage);
  }
}

TEST_CASE("nobody keeps a state where ranks that have done as many steps differ") {
  const After after = hand_over_to_all([](HeldState& mine) { mine.step = 5; });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(after.is_done[rank]);
    CHECK_THAT(after.handover[rank].damage, Contains("rank 0 ") && Contains("rank 2 "));
    CHECK_FALSE(after.mine[rank].is_there);
  }
}

}  // namespace
}  // namespace ddprun::trainer
