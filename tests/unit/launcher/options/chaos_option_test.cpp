#include "launcher/options/chaos_option.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;
using agent::ChaosFault;
using Catch::Matchers::StartsWith;
using launcher::parse_chaos;

TEST_CASE("the option --chaos: a seed, faults and how often they come") {
  const auto plan = parse_chaos("7,kill=30s,delay=10s/500ms,stop=2m,faults=20");
  REQUIRE(plan.has_value());
  CHECK(plan->seed == 7);
  REQUIRE(plan->rows.size() == 3);
  CHECK(plan->rows[0].fault == ChaosFault::kill);
  CHECK(plan->rows[0].every == 30s);
  CHECK(plan->rows[1].fault == ChaosFault::delay);
  CHECK(plan->rows[1].every == 10s);
  CHECK(plan->rows[1].length == 500ms);
  CHECK(plan->rows[2].fault == ChaosFault::stop);
  CHECK(plan->rows[2].every == 2min);
  CHECK(plan->faults_max == 20);
  CHECK_FALSE(parse_chaos("18446744073709551615,kill=0.5")->faults_max.has_value());
}

TEST_CASE("the option --chaos has faults of the rendezvous") {
  const auto plan = parse_chaos("1,service=1m,partition=30s/5s");
  REQUIRE(plan.has_value());
  REQUIRE(plan->rows.size() == 2);
  CHECK(plan->rows[0].fault == ChaosFault::service);
  CHECK(plan->rows[0].every == 1min);
  CHECK(plan->rows[1].fault == ChaosFault::partition);
  CHECK(plan->rows[1].every == 30s);
  CHECK(plan->rows[1].length == 5s);
  CHECK(plan->has(ChaosFault::service));
  CHECK_FALSE(plan->has(ChaosFault::kill));
}

TEST_CASE("what is wrong in --chaos is named") {
  const auto problem = [](const std::string& text) {
    const auto plan = parse_chaos(text);
    if (plan) FAIL(text << " was accepted");
    CHECK(plan.error().exit_code == 2);
    return plan.error().message;
  };
  for (const char* text : {"", "7", "kill=30s", "x,kill=30s", "-1,kill=1s", "1.5,kill=1s"})
    CHECK_THAT(problem(text),
               StartsWith("--chaos: expected SEED,FAULT=EVERY,..., as in --chaos=7,"));
  CHECK_THAT(problem("7,faults=3"), StartsWith("--chaos: no fault is given; expected SEED,"));
  CHECK_THAT(problem("7,"), StartsWith("--chaos: : the faults are kill, stop, delay,"));
  CHECK_THAT(problem("7,burn=3"),
             StartsWith("--chaos: burn=3: the faults are kill, stop, delay, service and"));
  CHECK_THAT(problem("7,kill"), StartsWith("--chaos: kill: expected a time, 1 ms or longer"));
  CHECK_THAT(problem("7,kill=0"), StartsWith("--chaos: kill=0: expected a time"));
  CHECK_THAT(problem("7,kill=1s/2s"), StartsWith("--chaos: kill=1s/2s: only delay and partition"));
  CHECK_THAT(problem("7,service=1s/2s"), StartsWith("--chaos: service=1s/2s: only delay and"));
  CHECK_THAT(problem("7,partition=1s"),
             StartsWith("--chaos: partition=1s: expected partition=EVERY/LENGTH"));
  CHECK_THAT(problem("7,delay=1s"), StartsWith("--chaos: delay=1s: expected delay=EVERY/LENGTH"));
  CHECK_THAT(problem("7,delay=1s/x"), StartsWith("--chaos: delay=1s/x: expected a time behind"));
  CHECK_THAT(problem("7,kill=1s,kill=2s"), StartsWith("--chaos: kill=2s: kill is given twice"));
  CHECK_THAT(problem("7,kill=1s,faults=0"), StartsWith("--chaos: faults=0: expected a number"));
}
