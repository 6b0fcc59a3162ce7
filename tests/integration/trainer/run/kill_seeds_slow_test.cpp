// Many random kills: a long test, for the nightly run.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

TEST_CASE("a random worker killed at a random step changes no bit (20 seeds)") {
  const SmallData data;
  const std::string base = undisturbed(data);
  for (unsigned seed = 100; seed < 120; ++seed) kill_and_restart(data, base, seed);
}
