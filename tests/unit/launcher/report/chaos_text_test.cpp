#include "launcher/report/report_parts.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;
using launcher::chaos_text;
using launcher::recovery_times;

TEST_CASE("the report counts faults by kind, and says how long recoveries took") {
  agent::ChaosSummary chaos;
  chaos.seed = 7;
  CHECK(chaos_text(chaos) == "ddprun: chaos (seed 7): 0 faults\n");
  chaos.faults[agent::ChaosFault::delay] = 1;
  CHECK(chaos_text(chaos) == "ddprun: chaos (seed 7): 1 fault (1 delay)\n");
  chaos.faults[agent::ChaosFault::kill] = 2;
  chaos.recoveries = {2ms};
  CHECK(
      chaos_text(chaos) ==
      "ddprun: chaos (seed 7): 3 faults (2 kill, 1 delay); 1 recovery: 2 ms (median), 2 ms (p90), "
      "2 ms (longest)\n");
  chaos.faults[agent::ChaosFault::service] = 1;
  chaos.faults[agent::ChaosFault::partition] = 4;
  CHECK_THAT(chaos_text(chaos), Catch::Matchers::Contains(
                                    "8 faults (2 kill, 1 delay, 1 service, 4 partition); 1 rec"));
}

TEST_CASE("percentiles of recoveries are those of the nearest rank") {
  agent::ChaosSummary chaos;
  for (int i = 1; i <= 10; ++i) chaos.recoveries.push_back(std::chrono::milliseconds(i));
  CHECK(recovery_times(chaos).median == 5ms);
  CHECK(recovery_times(chaos).p90 == 9ms);
  CHECK(recovery_times(chaos).longest == 10ms);
}
