#include "launcher/report/report_parts.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/transcript.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using launcher::chaos_text;
using launcher::recovery_times;

TEST_CASE("the report counts faults by kind, and says how long recoveries took") {
  agent::ChaosSummary chaos;
  chaos.seed = 7;
  const auto check = [&chaos](const std::string& state) {
    test::check_transcript("report", state, chaos_text(chaos));
  };
  check("none");
  chaos.faults[agent::ChaosFault::delay] = 1;
  check("one");
  chaos.faults[agent::ChaosFault::kill] = 2;
  chaos.recoveries = {2ms};
  check("three of two kinds");
  chaos.faults[agent::ChaosFault::service] = 1;
  chaos.faults[agent::ChaosFault::partition] = 4;
  check("all kinds");
}

TEST_CASE("percentiles of recoveries are those of the nearest rank") {
  agent::ChaosSummary chaos;
  for (int i = 1; i <= 10; ++i) chaos.recoveries.push_back(std::chrono::milliseconds(i));
  CHECK(recovery_times(chaos).median == 5ms);
  CHECK(recovery_times(chaos).p90 == 9ms);
  CHECK(recovery_times(chaos).longest == 10ms);
}
