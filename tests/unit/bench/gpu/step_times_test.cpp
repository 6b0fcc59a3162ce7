#include "bench/gpu/step_times.hpp"

#include <catch2/catch.hpp>

namespace ddprun::bench {
namespace {

/// Adds a step of two pieces: the second is the optimizer's pass, which ends it.
void add_step(StepTimes& times, double gap, double busy, std::uint64_t update_bytes = 0) {
  times.add({.gap = gap, .busy = busy / 2});
  times.add({.busy = busy / 2, .update_bytes = update_bytes, .ends_step = true});
}

TEST_CASE("gaps are a share of the time of all steps after the warm-up") {
  StepTimes times(2);
  add_step(times, 100, 1);
  add_step(times, 50, 1);
  CHECK(times.steps() == 0);
  add_step(times, 1, 3);
  add_step(times, 0, 4);
  CHECK(times.steps() == 2);
  CHECK(times.gap_share() == Approx(1.0 / 8));
  CHECK(times.step_seconds() == Approx(4));
}

TEST_CASE("a step with work that is no part of training is left out, and the next one counts") {
  StepTimes times(0);
  add_step(times, 1, 9);
  times.add({.gap = 70, .busy = 5, .is_other = true});
  add_step(times, 1, 9);
  add_step(times, 1, 9);
  CHECK(times.steps() == 2);
  CHECK(times.gap_share() == Approx(0.1));
}

TEST_CASE("the rate of the optimizer's pass is the median after the warm-up") {
  StepTimes times(1);
  CHECK(times.update_rate() == 0);
  add_step(times, 0, 2, 9000);
  CHECK(times.update_rate() == 0);
  for (const std::uint64_t bytes : {100, 900, 300}) add_step(times, 0, 2, bytes);
  CHECK(times.update_rate() == Approx(300));
}

}  // namespace
}  // namespace ddprun::bench
