// Two ranks with steps captured in graphs, beside the same ranks without.
#include "tests/unit/trainer/cuda/captured_steps.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/repeats.hpp"
#include "tests/unit/trainer/nccl/nccl_ranks.hpp"

namespace ddprun::trainer {
namespace {

using test::Shards;
using test::StepsDone;
using test::StepsWanted;

/// What rank 0 has done, once both are done.
StepsDone run_two(const Shards& data, const StepsWanted& wanted, SumOrder order,
                  std::uint64_t seed) {
  test::Problems problems;
  std::vector<StepsDone> done(2);
  test::run_nccl_group({.shards = wanted.shards,
                        .arena_floats = data.graph.arena_size(),
                        .order = order,
                        .seed = seed},
                       problems, [&](test::NcclRank& one) {
                         done[static_cast<std::size_t>(one.communicator.rank())] =
                             run_steps(one.gpu, one.device, one.communicator, data, wanted);
                       });
  CHECK(problems.all() == std::vector<std::string>{});
  for (const StepsDone& one : done) CHECK(one.failure.empty());
  CHECK(done[0].weights == done[1].weights);
  return done[0];
}

void check_same(const Shards& data, StepsWanted wanted, SumOrder order, std::uint64_t seeds) {
  wanted.captures = false;
  const StepsDone without = run_two(data, wanted, order, 1);
  wanted.captures = true;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    const StepsDone with = run_two(data, wanted, order, seed);
    CHECK(with.graphs > 2);
    CHECK(with == without);
  }
}

Shards longer(Shards shards, int steps) {
  shards.steps = steps;
  return shards;
}

/// A step of resnet18 takes as long as many of the others.
constexpr std::uint64_t kSchedulesOfNorms = 10;

TEST_CASE("two ranks with captured steps have the bits of others, with their sums under way") {
  const auto schedules =
      static_cast<std::uint64_t>(ddprun::test::repeats("DDPRUN_TEST_SCHEDULES", 1));
  const Shards images = longer(test::image_shards(ModelName::lenet, {28, 28, 1}), 5);
  const Shards texts = longer(test::text_shards(), 5);
  // Its batch norms have statistics, which are summed like gradients.
  const Shards norms = longer(test::image_shards(ModelName::resnet18, {8, 8, 3}), 4);
  for (const SumOrder order : {SumOrder::chain, SumOrder::tree}) {
    check_same(images, {.shards = 4}, order, schedules);
    check_same(norms, {.shards = 2}, order, std::min(schedules, kSchedulesOfNorms));
  }
  check_same(texts, {.shards = 4, .precision = Precision::fp16, .overflow_at = 3}, SumOrder::chain,
             schedules);
}

}  // namespace
}  // namespace ddprun::trainer
