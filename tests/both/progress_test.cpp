// What train reports of its progress is what the agent reads.
#include <catch2/catch.hpp>

#include "agent/progress/progress_page.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

TEST_CASE("a run reports its step and phase and asks not to be watched after its end") {
  const SmallData data;
  const TempDir directory;
  const std::string page = directory / "page";
  train({.arguments = three_epochs(data, {"--out", directory / "out", "--max-steps", "5"}),
         .environment = {{"DDPRUN_PROGRESS_FILE", page}}});
  const auto last = ddprun::agent::read_progress_page(page).page;
  REQUIRE(last.has_value());
  CHECK(last->step == 5);
  CHECK(last->phase == "last checkpoint");
  CHECK_FALSE(last->watched);
}
