// An agent's session with the rendezvous service: what is sent, sent again and delivered.
#include <csignal>

#include "tests/unit/rendezvous/client/session_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Script = SessionScript;

TEST_CASE("a session begins with resume, and sends what the agent says in order") {
  Script agent;
  CHECK(agent.connects == 1);
  agent.submit(Join{});
  CHECK(agent.sent.empty());
  agent.take(rdzv::Connected{});
  const auto* resume = agent.last<Resume>();
  REQUIRE(resume != nullptr);
  CHECK(resume->agent == "a");
  CHECK_FALSE(resume->epoch.has_value());
  CHECK(resume->replaces.empty());
  CHECK(resume->lease == 15s);
  CHECK(agent.sent.size() == 1);
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(agent.last<Numbered>()->seq == 1);
  agent.start_round();
  CHECK(agent.count<Round>() == 1);
  agent.submit(proto::Started{0});
  CHECK(agent.last<Numbered>()->seq == 2);
}

TEST_CASE("on a new connection only what was not acknowledged is sent again") {
  Script agent;
  agent.begin();
  agent.submit(proto::Started{0});
  agent.submit(proto::WorkerFailed{});
  agent.fail();
  agent.submit(Stopped{0, {}});
  agent.pass(100ms);
  agent.take(rdzv::Connected{});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->epoch == 1u);
  CHECK(agent.last<Resume>()->next_seq == 5);
  agent.sent.clear();
  agent.welcome(true, 2);
  REQUIRE(agent.sent.size() == 2);
  CHECK(std::get<Numbered>(agent.sent[0]).seq == 3);
  CHECK(std::get<Numbered>(agent.sent[1]).seq == 4);
}

TEST_CASE("what the service says again is delivered once") {
  Script agent;
  agent.begin();
  agent.start_round(0);
  CHECK(agent.count<Round>() == 1);
  agent.hear(Stop{0, "b failed"});
  agent.hear(Stop{0, "b failed"});
  CHECK(agent.count<Stop>() == 1);
  agent.submit(Stopped{0, {}});
  // The service had not read that when it said this.
  agent.hear(Stop{0, "b failed"});
  agent.start_round(0);
  CHECK(agent.count<Stop>() == 1);
  CHECK(agent.count<Round>() == 1);
  agent.start_round(1);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE("a round that came and went while the agent was away is answered, and joined after") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(true, 1);
  agent.sent.clear();
  agent.hear(Stop{0, "b joined"});
  agent.hear(Stop{0, "b joined"});
  CHECK(agent.delivered.empty());
  REQUIRE(agent.sent.size() == 2);
  CHECK(std::holds_alternative<Stopped>(std::get<Numbered>(agent.sent[0]).message));
  CHECK(std::holds_alternative<Join>(std::get<Numbered>(agent.sent[1]).message));
  agent.start_round(1);
  CHECK(agent.count<Round>() == 1);
}

TEST_CASE("a round of a new session may have the number of one that was missed in the old") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.hear(Stop{0, "b joined"});  // of a round that never arrived
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(false);  // by a service that has forgotten the session
  agent.welcome(false);
  agent.start_round(0);
  agent.hear(Stop{0, "c failed"});
  CHECK(agent.count<Round>() == 1);
  CHECK(agent.count<Stop>() == 1);
}

TEST_CASE("a join tells of the last round") {
  Script agent;
  agent.begin();
  agent.submit(Stopped{0, {}});
  agent.submit(Join{});
  const auto& join = std::get<Join>(agent.last<Numbered>()->message);
  REQUIRE(join.was_in.has_value());
  CHECK(join.was_in->epoch == 1);
  CHECK(join.was_in->number == 0);
}

TEST_CASE("a service that has forgotten the job learns of the restart that was planned") {
  Script agent;
  agent.begin();
  agent.hear(Stop{0, "rank 0 failed"});
  agent.submit(Stopped{0, {}});
  agent.submit(Join{});
  agent.hear(proto::RestartPlanned{"rank 0 failed", 10s, 3, 5});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.welcome(false);
  const auto& join = std::get<Join>(agent.last<Numbered>()->message);
  REQUIRE(join.was_in.has_value());
  CHECK(join.was_in->restart_count == 3);
}

TEST_CASE("a check is asked for once, and by a new service again") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.hear(proto::Check{1});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(true, 1);
  agent.hear(proto::Check{1});
  CHECK(agent.count<proto::Check>() == 1);
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(false);  // it has no memory of this node
  agent.welcome(false);
  CHECK(std::holds_alternative<Join>(agent.last<Numbered>()->message));
  agent.hear(proto::Check{1});
  CHECK(agent.count<proto::Check>() == 2);
}

TEST_CASE("an agent that waits for a round joins again by itself") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.sent.clear();
  agent.welcome(false);
  CHECK(agent.count<Stop>() == 0);
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(std::holds_alternative<Join>(agent.last<Numbered>()->message));
}

TEST_CASE("a round that was read under a lease that is over starts nothing") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  // As after SIGSTOP: nothing ran, and the round was in the socket all the time.
  agent.now += 15s;
  agent.start_round();
  CHECK(agent.count<Round>() == 0);
  CHECK(agent.resets == 1);
}

TEST_CASE("no service at all ends the job after the join time-out") {
  Script agent;
  for (int i = 0; i < 5000 && !agent.session.is_over(); ++i) {
    agent.pass(200ms);
    agent.fail(true, "Connection refused");
  }
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        "no rendezvous answered at node1:29400 for 600 s: Connection refused");
  REQUIRE(agent.lines.size() == 1);
  CHECK(agent.lines[0] ==
        "the rendezvous at node1:29400 does not answer (Connection refused); trying for 598 s");
  CHECK(agent.connects > 600);
}

TEST_CASE("a node that finds no rendezvous tells why it has none itself") {
  Script agent;
  for (int i = 0; i < 5000 && !agent.session.is_over(); ++i) {
    agent.pass(200ms);
    agent.take(rdzv::ConnectionFailed{false, "No route to host",
                                      "10.0.0.9 is not an address of this machine"});
  }
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(
      std::get<Finished>(agent.delivered.back()).reason ==
      "no rendezvous answered at node1:29400 for 600 s: No route to host; it is not on this node: "
      "10.0.0.9 is not an address of this machine");
}

TEST_CASE("a refusal ends the job at once, but for a limit, which may pass") {
  Script agent;
  agent.take(rdzv::Connected{});
  SECTION("wrong secret") {
    agent.hear(proto::Refused{proto::Refused::Why::wrong_secret, "the secret differs"});
    REQUIRE(agent.count<Finished>() == 1);
    CHECK(std::get<Finished>(agent.delivered.back()).reason ==
          "the rendezvous at node1:29400 refuses this node: the secret differs");
  }
  SECTION("limit") {
    agent.hear(proto::Refused{proto::Refused::Why::limit, "too many"});
    CHECK(agent.count<Finished>() == 0);
    agent.pass(1s);
    CHECK(agent.connects == 2);
  }
}

TEST_CASE("a service that is full for ever ends the job after the join time-out, and is named") {
  Script agent;
  for (int i = 0; i < 5000 && !agent.session.is_over(); ++i) {
    agent.take(rdzv::Connected{});
    agent.hear(proto::Refused{proto::Refused::Why::limit, "too many"});
    agent.pass(1s);
  }
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        "no rendezvous answered at node1:29400 for 600 s: too many");
  REQUIRE(agent.lines.size() == 1);
  CHECK(agent.lines[0].find("too many") != std::string::npos);
}

TEST_CASE("a stranger that has taken the port of a service does not end a job that runs") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(1s);
  agent.hear(proto::Refused{proto::Refused::Why::other_job, "another job"});
  CHECK(agent.count<Finished>() == 0);
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(true, 1);
  CHECK(agent.count<Stop>() == 0);
}

TEST_CASE("the outcome is acknowledged, and is the last word") {
  Script agent;
  agent.begin();
  Finished finished;
  finished.reason = "all workers ended with exit code 0";
  agent.hear(finished);
  CHECK(agent.last<proto::Bye>() != nullptr);
  CHECK(agent.session.is_over());
  agent.hear(finished);
  agent.fail();
  CHECK(agent.count<Finished>() == 1);
}

TEST_CASE("a node whose last round ended while it was given up asks how the job ended") {
  SessionScript script;
  script.begin();
  script.hear(Stop{0, "a worker failed", true, false});
  script.submit(Stopped{});
  script.fail();
  script.pass(30s);
  script.take(rdzv::Connected{});
  script.welcome(false);  // its session is over
  CHECK(script.count<Finished>() == 0);
  REQUIRE(script.last<Resume>() != nullptr);
  CHECK(script.last<Resume>()->agent == "a/2");
  CHECK(!script.last<Resume>()->epoch);
  script.welcome(false);
  script.hear(Finished{Finished::Outcome::failed, "a worker failed", {}, ""});
  REQUIRE(script.count<Finished>() == 1);
  CHECK(std::get<Finished>(script.delivered.back()).reason == "a worker failed");
}

TEST_CASE("a node that leaves does not wait for a service that is not reached") {
  Script agent;
  SECTION("there never was one") {
    agent.submit(Leave{SIGINT, "", true});
    agent.pass(0s);
  }
  SECTION("its workers end first") {
    agent.begin();
    agent.fail();
    agent.submit(Leave{SIGINT, "", true});
    agent.pass(1100ms);
    REQUIRE(agent.count<Stop>() == 1);
    CHECK(std::get<Stop>(agent.delivered.back()).final);
    CHECK_FALSE(std::get<Stop>(agent.delivered.back()).kill);
    agent.pass(5s);
    CHECK(agent.count<Finished>() == 0);
    agent.submit(Stopped{0, {}});
    agent.pass(0s);
  }
  SECTION("they have succeeded") {
    agent.begin();
    agent.submit(proto::WorkersDone{0});
    agent.fail();
    agent.submit(Leave{SIGINT, "", true});
    agent.pass(1100ms);
    CHECK(agent.count<Stop>() == 0);
  }
  REQUIRE(agent.count<Finished>() == 1);
  const auto& finished = std::get<Finished>(agent.delivered.back());
  CHECK(finished.outcome == Finished::Outcome::cancelled);
  CHECK(finished.signal == SIGINT);
  CHECK_FALSE(agent.session.deadline().has_value());
}

TEST_CASE("a node that leaves while a service welcomes it says so, and leaves no session behind") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.submit(Leave{0, "the port is taken"});
  agent.pass(900ms);
  CHECK(agent.resets == 0);
  CHECK(agent.count<Finished>() == 0);
  SECTION("it does") {
    agent.welcome(false);
    REQUIRE(agent.last<Numbered>() != nullptr);
    CHECK(std::holds_alternative<Leave>(agent.last<Numbered>()->message));
    agent.hear(proto::outcome_of(Leave{0, "the port is taken"}));
    CHECK(agent.last<proto::Bye>() != nullptr);
    CHECK(agent.resets == 0);
  }
  SECTION("it does not answer") {
    agent.pass(200ms);
    CHECK(agent.resets == 1);
  }
  CHECK(agent.count<Finished>() == 1);
}

TEST_CASE("a connection that ends late after the last word is no long silence yet") {
  Script agent;
  agent.begin();
  agent.pass(2900ms);
  agent.fail();
  agent.pass(1900ms);
  CHECK(agent.lines.empty());
  agent.pass(200ms);
  CHECK(agent.lines.size() == 1);
}

TEST_CASE("a node that leaves and reaches the service again lets it decide") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.submit(Leave{SIGTERM, "", false});
  agent.pass(500ms);
  agent.take(rdzv::Connected{});
  agent.welcome(true, 1);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(std::holds_alternative<Leave>(agent.last<Numbered>()->message));
  agent.hear(Stop{0, "a was stopped by SIGTERM"});
  agent.pass(10s, true);
  REQUIRE(agent.delivered.size() == 2);  // the round and its stop
  CHECK(std::get<Stop>(agent.delivered.back()).reason == "a was stopped by SIGTERM");
}

TEST_CASE("workers are stopped for a node that leaves, though the service is attached and silent") {
  Script agent;
  agent.begin();
  agent.submit(Leave{SIGINT, "", true});
  agent.pass(1100ms);
  REQUIRE(agent.count<Stop>() == 1);
  CHECK_FALSE(std::get<Stop>(agent.delivered.back()).kill);
  CHECK(std::get<Stop>(agent.delivered.back()).may_save);
}
