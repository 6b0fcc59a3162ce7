// Any history of a job of several nodes keeps what ddprun promises. A seed is the whole history.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "tests/sim/sim_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// More, or others, by DDPRUN_SIM_SEEDS=FIRST:COUNT.
std::pair<std::uint64_t, int> seeds() {
  const char* chosen = std::getenv("DDPRUN_SIM_SEEDS");
  if (chosen == nullptr) return {0, 300};
  char* colon = nullptr;
  const std::uint64_t first = std::strtoull(chosen, &colon, 10);
  return {first, *colon == ':' ? std::atoi(colon + 1) : 1};
}

}  // namespace

TEST_CASE("any history of a job of several nodes keeps what must hold and ends") {
  int with_rounds = 0;
  int rounds = 0;
  int restarts = 0;
  int culprits = 0;
  std::set<std::pair<int, int>> cells;
  const auto [first, count] = seeds();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    const sim::History history = sim::SimJob(seed).run(10min);
    CAPTURE(history.violations);
    REQUIRE(history.violations.empty());
    with_rounds += history.rounds > 1 ? 1 : 0;
    rounds += history.rounds;
    restarts += history.restarts;
    culprits += history.culprits;
    cells.insert(history.cells.begin(), history.cells.end());
  }
  // Histories in which nothing happens would show nothing.
  if (count < 300) return;
  CHECK(with_rounds * 3 > count);
  CHECK(restarts * 3 > count);
  CHECK(rounds > 2 * count);
  CHECK(culprits * 10 > count);
  for (int state = 0; state < rdzv::kJobStates; ++state) {
    for (int kind = 0; kind < rdzv::kEventKinds; ++kind) {
      const auto response = rdzv::Membership::response(static_cast<rdzv::JobState>(state),
                                                       static_cast<rdzv::EventKind>(kind));
      CAPTURE(state, to_string(static_cast<rdzv::EventKind>(kind)));
      CHECK((response == "ignored" || cells.contains({state, kind})));
    }
  }
}

TEST_CASE("one seed is one history") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const sim::History once = sim::SimJob(seed).run(2min);
    const sim::History again = sim::SimJob(seed).run(2min);
    CHECK(once.hash == again.hash);
    CHECK(once.rounds == again.rounds);
  }
  CHECK(sim::SimJob(1).run(2min).hash != sim::SimJob(2).run(2min).hash);
}
