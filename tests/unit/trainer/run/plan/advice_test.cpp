// What is said of settings that nobody can mean.
#include "trainer/run/plan/plan.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

TrainPlan plan_of(std::int64_t last_step) {
  TrainPlan plan;
  plan.last_step = last_step;
  return plan;
}

TEST_CASE("usual settings get no advice") {
  Options options;
  CHECK(advice_on(options, {}, plan_of(100), 2).empty());
  options.device.threads_per_shard = 2;
  CHECK(advice_on(options, {}, plan_of(100), 2).empty());
  options.device.threads_per_shard = 1;  // more workers than cores is their launcher's choice
  WorkerEnvironment environment;
  environment.local_world_size = 4;
  CHECK(advice_on(options, environment, plan_of(100), 2).empty());
}

TEST_CASE("a warm-up that never ends is told of") {
  Options options;
  options.schedule.warmup.steps = 1;
  TrainPlan plan = plan_of(1);
  plan.schedule.warmup_steps = 1;
  const auto lines = advice_on(options, {}, plan, 2);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("--warmup 1: the run ends after 1 step,"));
  options.schedule.warmup = {.steps = 0, .share = 0.5};
  CHECK_THAT(advice_on(options, {}, plan, 2).at(0), Contains("--warmup 50%: the run ends"));
  plan.schedule.warmup_begin = 1;  // its last step has the whole rate
  CHECK(advice_on(options, {}, plan, 2).empty());
  plan.schedule.warmup_begin = 0;
  plan.last_step = 2;
  CHECK(advice_on(options, {}, plan, 2).empty());
}

TEST_CASE("threads that share too few cores are told of, with a number that fits") {
  Options options;
  options.device.threads_per_shard = 4;
  WorkerEnvironment environment;
  environment.local_world_size = 2;
  const auto lines = advice_on(options, environment, plan_of(1), 6);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             Contains("--threads-per-shard 4 x 2 workers on this machine = 8 threads, more "
                      "than its 6 cores") &&
                 Contains("give fewer of them"));
}

TEST_CASE("lanes that share too few cores are told of, as far as there are shards for them") {
  Options options;
  options.device.lanes = 4;
  TrainPlan plan = plan_of(1);
  CHECK(advice_on(options, {}, plan, 2).empty());  // one shard, so one lane
  plan.shards = 3;
  const auto lines = advice_on(options, {}, plan, 2);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("--lanes 3 x 1 worker on this machine = 3 threads, more than its 2 "
                                "cores"));
  CHECK(advice_on(options, {}, plan, kNoCores).empty());
  options.device.lanes.reset();
  CHECK(advice_on(options, {}, plan, 2).empty());  // as many as there are cores for
}

TEST_CASE("replicas that share too few cores are told of") {
  Options options;
  options.device.parallel = Parallel::dp;
  options.device.replicas = 3;
  options.device.threads_per_shard = 2;
  CHECK(advice_on(options, {}, plan_of(1), 6).empty());
  const auto lines = advice_on(options, {}, plan_of(1), 4);
  REQUIRE(lines.size() == 1);
  CHECK(
      lines[0] ==
      "--replicas 3 x --threads-per-shard 2 x 1 worker on this machine = 6 threads, more than its "
      "4 cores, which is slower than a thread for each core: give fewer of them");
}

}  // namespace
}  // namespace ddprun::trainer
