#include "trainer/optim/schedule.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST_CASE("a constant rate is constant") {
  const Schedule schedule{.base_rate = 0.1};
  REQUIRE(learning_rate(schedule, 0) == 0.1);
  REQUIRE(learning_rate(schedule, 1000000) == 0.1);
}

TEST_CASE("warm-up rises linearly from 0 and reaches the base rate with the step behind it") {
  const auto kind = GENERATE(ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::linear,
                             ScheduleKind::plateau);
  const Schedule schedule{
      .kind = kind, .base_rate = 0.4, .warmup_steps = 4, .total_steps = 100'000'000};
  REQUIRE(learning_rate(schedule, 0) == 0);
  REQUIRE(learning_rate(schedule, 1) == Approx(0.1));
  REQUIRE(learning_rate(schedule, 3) == Approx(0.3));
  REQUIRE(learning_rate(schedule, 4) == Approx(0.4));
}

TEST_CASE("warm-up that begins with its first part reaches the base rate with its last step") {
  const Schedule schedule{.base_rate = 0.4, .warmup_steps = 4, .warmup_begin = 1};
  REQUIRE(learning_rate(schedule, 0) == Approx(0.1));
  REQUIRE(learning_rate(schedule, 1) == Approx(0.2));
  REQUIRE(learning_rate(schedule, 3) == Approx(0.4));
  REQUIRE(learning_rate(schedule, 4) == Approx(0.4));
}

TEST_CASE("the step schedule multiplies every N steps, counted from the first step of all") {
  const Schedule schedule{.kind = ScheduleKind::step,
                          .base_rate = 1.0,
                          .warmup_steps = 5,
                          .step_every = 10,
                          .step_factor = 0.1};
  REQUIRE(learning_rate(schedule, 4) == Approx(0.8));
  REQUIRE(learning_rate(schedule, 9) == Approx(1.0));
  REQUIRE(learning_rate(schedule, 10) == Approx(0.1));
  REQUIRE(learning_rate(schedule, 29) == Approx(0.01));
  REQUIRE(learning_rate(schedule, 30) == Approx(0.001));
}

TEST_CASE("the cosine schedule falls from the base rate to the final one and stays there") {
  const Schedule schedule{.kind = ScheduleKind::cosine,
                          .base_rate = 1.0,
                          .warmup_steps = 10,
                          .total_steps = 110,
                          .final_rate = 0.2};
  REQUIRE(learning_rate(schedule, 10) == Approx(1.0));
  REQUIRE(learning_rate(schedule, 60) == Approx(0.6));
  REQUIRE(learning_rate(schedule, 35) == Approx(0.2 + 0.8 * (1 + 0.70710678) / 2));
  REQUIRE(learning_rate(schedule, 110) == Approx(0.2));
  REQUIRE(learning_rate(schedule, 5000) == Approx(0.2));
}

TEST_CASE("the linear schedule falls from the base rate to 0 and stays there") {
  const Schedule schedule{
      .kind = ScheduleKind::linear, .base_rate = 1.0, .warmup_steps = 10, .total_steps = 110};
  REQUIRE(learning_rate(schedule, 0) == 0.0);
  REQUIRE(learning_rate(schedule, 9) == Approx(0.9));
  REQUIRE(learning_rate(schedule, 10) == Approx(1.0));
  REQUIRE(learning_rate(schedule, 35) == Approx(0.75));
  REQUIRE(learning_rate(schedule, 109) == Approx(0.01));
  REQUIRE(learning_rate(schedule, 110) == 0.0);
  REQUIRE(learning_rate(schedule, 5000) == 0.0);
}

TEST_CASE(
    "the plateau schedule has the share of its state, also in the warm-up, and others have none") {
  Schedule schedule{.kind = ScheduleKind::plateau, .base_rate = 0.5, .warmup_steps = 2};
  REQUIRE(learning_rate(schedule, 1, 0.1) == Approx(0.025));
  REQUIRE(learning_rate(schedule, 7, 0.1) == Approx(0.05));
  REQUIRE(learning_rate(schedule, 7) == 0.5);
  schedule.kind = ScheduleKind::constant;
  REQUIRE(learning_rate(schedule, 7, 0.1) == 0.5);
}

TEST_CASE("a cosine schedule shorter than its warm-up still gives a rate") {
  const Schedule schedule{
      .kind = ScheduleKind::cosine, .base_rate = 1.0, .warmup_steps = 10, .total_steps = 5};
  REQUIRE(learning_rate(schedule, 9) == Approx(0.9));
  REQUIRE(learning_rate(schedule, 10) == Approx(1.0));
  REQUIRE(learning_rate(schedule, 11) == Approx(0.0).margin(1e-12));
}

/// The shares after each of these losses.
std::vector<double> shares(const PlateauRule& rule, const std::vector<double>& losses,
                           double base_rate = 1) {
  PlateauState state;
  std::vector<double> all;
  for (const double loss : losses) {
    state = after_epoch(rule, state, loss, base_rate);
    all.push_back(state.share);
  }
  return all;
}

TEST_CASE("the rate falls after one more epoch without a better loss than patience lets pass") {
  const PlateauRule rule{.factor = 0.5, .patience = 2};
  CHECK(shares(rule, {1, 1, 1, 1, 1, 1, 1}) == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25});
}

TEST_CASE("a better loss starts the count anew") {
  const PlateauRule rule{.factor = 0.5, .patience = 1};
  CHECK(shares(rule, {1, 1, 0.9, 0.9, 0.8, 0.8, 0.8}) ==
        std::vector<double>{1, 1, 1, 1, 1, 1, 0.5});
}

TEST_CASE("a loss that is less by a share below the threshold is not better") {
  const PlateauRule rule{.factor = 0.5, .patience = 0, .threshold = 0.1};
  CHECK(shares(rule, {1, 0.95, 0.89}) == std::vector<double>{1, 0.5, 0.5});
}

TEST_CASE("a loss that is no number is not better") {
  const PlateauRule rule{.factor = 0.5, .patience = 0};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(shares(rule, {1, nan, 0.5}) == std::vector<double>{1, 0.5, 0.5});
  CHECK(shares(rule, {nan, 1}) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("a rate that would fall by next to nothing stays") {
  const PlateauRule rule{.factor = 0.1, .patience = 0};
  CHECK(shares(rule, {1, 1, 1}, 1e-8) == std::vector<double>{1, 1, 1});
  CHECK(shares(rule, {1, 1, 1}, 1e-7).back() == Approx(0.1));  // then only by 0.9e-8
}

}  // namespace

}  // namespace ddprun::trainer
