// Many random moments: a long test, for the nightly run.
#include <catch2/catch.hpp>

#include "tests/both/stopped_runs.hpp"

using namespace ddprun::test;

namespace {

/// Stops run after run, until there were so many stops in training.
void stop_often(const std::vector<std::string>& launcher, unsigned first_seed) {
  constexpr std::size_t kStopsLeast = 20;
  constexpr unsigned kRunsMost = 40;
  const SmallData data;
  const std::string base = undisturbed(data);
  std::size_t stops = 0;
  for (unsigned run = 0; stops < kStopsLeast && run < kRunsMost; ++run)
    stops += stop_at_random(data, base, launcher, first_seed + run);
  CHECK(stops >= kStopsLeast);
}

}  // namespace

TEST_CASE("a run that SIGTERM ends at 20 random moments in training loses no step") {
  SECTION("alone") { stop_often({}, 100); }
  SECTION("two workers of ddprun") { stop_often(two_workers(), 200); }
}
