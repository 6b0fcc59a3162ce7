// An agent's session while the name of the rendezvous leads nowhere, as that of a pod that is
// started again.
#include <string>

#include "tests/unit/rendezvous/client/session_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Script = SessionScript;

TEST_CASE("a name that is unknown for minutes is looked up again and again until it is known") {
  const std::string unknown = "cannot look up job-0.job: Name or service not known";
  Script agent;
  // Each attempt looks it up.
  const auto stay_unknown_for = [&](std::chrono::nanoseconds time) {
    for (const auto end = agent.now + time; agent.now < end;) {
      const int before = agent.connects;
      agent.pass(200ms);
      if (agent.connects > before) agent.fail(false, unknown);
    }
  };
  SECTION("at the start, for less than the join time-out") {
    agent.fail(false, unknown);
    stay_unknown_for(590s);
    CHECK(agent.connects > 300);
    CHECK(agent.count<Finished>() == 0);
    REQUIRE(agent.lines.size() == 1);
    CHECK(agent.lines[0] ==
          "the rendezvous at node1:29400 does not answer (" + unknown + "); trying for 598 s");
    agent.pass(5s);
    agent.take(rdzv::Connected{});
    agent.welcome(false);
    agent.submit(Join{});
    agent.acknowledged = 1;
    agent.start_round();
    CHECK(agent.count<Round>() == 1);
  }
  SECTION("at the start, for longer") {
    agent.fail(false, unknown);
    stay_unknown_for(610s);
    REQUIRE(agent.count<Finished>() == 1);
    CHECK(std::get<Finished>(agent.delivered.back()).reason ==
          "no rendezvous answered at node1:29400 for 600 s: " + unknown);
  }
  SECTION("in a round: the workers end with the lease, and another service is joined") {
    agent.begin();
    agent.fail();
    stay_unknown_for(14s);
    CHECK(agent.count<Stop>() == 0);
    stay_unknown_for(2s);
    REQUIRE(agent.count<Stop>() == 1);
    agent.submit(Stopped{0, {}});
    agent.submit(Join{});
    stay_unknown_for(270s);
    CHECK(agent.count<Finished>() == 0);
    agent.pass(5s);
    agent.sent.clear();
    agent.take(rdzv::Connected{});
    REQUIRE(agent.last<Resume>() != nullptr);
    CHECK(agent.last<Resume>()->replaces == "a");
    agent.welcome(false);
    REQUIRE(agent.last<Numbered>() != nullptr);
    const auto* join = std::get_if<Join>(&agent.last<Numbered>()->message);
    REQUIRE(join != nullptr);
    CHECK(join->was_in.has_value());
    agent.start_round(1);
    CHECK(agent.count<Round>() == 2);
  }
  SECTION("in a round, for longer than the lost time-out") {
    agent.begin();
    agent.fail();
    stay_unknown_for(17s);
    agent.submit(Stopped{0, {}});
    agent.submit(Join{});
    stay_unknown_for(300s);
    REQUIRE(agent.count<Finished>() == 1);
    CHECK(std::get<Finished>(agent.delivered.back()).reason ==
          "the rendezvous at node1:29400 has not answered for 300 s: " + unknown);
  }
}
