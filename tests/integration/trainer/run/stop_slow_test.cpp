// Many random moments: a long test, for the nightly run.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/stopped_runs.hpp"

using namespace ddprun::test;

TEST_CASE("a run that SIGTERM ends at random moments loses no step (20 seeds)") {
  const SmallData data;
  const std::string base = undisturbed(data);
  std::size_t stops = 0;
  SECTION("alone") {
    for (unsigned seed = 100; seed < 120; ++seed) stops += stop_at_random(data, base, {}, seed);
  }
  SECTION("two workers of ddprun") {
    for (unsigned seed = 200; seed < 220; ++seed)
      stops += stop_at_random(data, base, two_workers(), seed);
  }
  CHECK(stops > 0);  // some moments were in training
}
