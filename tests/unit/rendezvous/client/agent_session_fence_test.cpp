// When the workers of an agent must end, because the service is silent or has forgotten it.
#include "tests/unit/rendezvous/client/session_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Script = SessionScript;

TEST_CASE("keep-alives that are answered keep the lease") {
  Script agent;
  agent.begin();
  agent.pass(10min, true);
  CHECK(agent.count<Stop>() == 0);
  CHECK(agent.connects == 1);
  CHECK(agent.lines.empty());
}

TEST_CASE("without an answer for a lease the workers are killed, once") {
  Script agent;
  agent.begin();
  const auto began = agent.now;
  SECTION("the connection is open and silent") { agent.pass(14900ms); }
  SECTION("the connection is reset, and attempts time out") {
    agent.fail();
    agent.pass(14900ms);
  }
  CHECK(agent.count<Stop>() == 0);
  agent.pass(1s);
  REQUIRE(agent.count<Stop>() == 1);
  const auto& stop = std::get<Stop>(agent.delivered.back());
  CHECK(stop.kill);
  CHECK(stop.round == 0);
  CHECK(stop.reason == "the rendezvous at node1:29400 has not answered for 15 s");
  CHECK(agent.session.lease_end() == began + 15s);
  agent.pass(1min);
  CHECK(agent.count<Stop>() == 1);
}

TEST_CASE("after that the agent begins a new session, which replaces the old one") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(16s);
  REQUIRE(agent.count<Stop>() == 1);
  // What the node says of its killed round is of no interest any more.
  agent.submit(proto::WorkerFailed{});
  agent.submit(Stopped{0, {}});
  agent.submit(Join{});
  agent.pass(10s);
  agent.sent.clear();
  agent.take(rdzv::Connected{});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  CHECK(agent.last<Resume>()->replaces == "a");
  CHECK_FALSE(agent.last<Resume>()->epoch.has_value());
  agent.welcome(false);
  REQUIRE(agent.sent.size() == 2);
  const auto& first = std::get<Numbered>(agent.sent[1]);
  CHECK(first.seq == 1);
  REQUIRE(std::holds_alternative<Join>(first.message));
  CHECK(std::get<Join>(first.message).was_in.has_value());
  agent.start_round(1);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE(
    "a node that only waits for the end does not wait for a service that has forgotten the job") {
  Script agent;
  agent.begin();
  agent.hear(Stop{0, "the job was stopped by SIGINT on b", true});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  CHECK(agent.count<Finished>() == 0);  // its workers are being killed
  agent.submit(Stopped{0, {}});
  CHECK(agent.count<Finished>() == 0);  // the service may know how the job ended
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  const auto leave = std::get<Leave>(agent.last<Numbered>()->message);
  CHECK(leave.error ==
        "the rendezvous at node1:29400 does not know this node any more, and the job was ending; "
        "its outcome is unknown");
  agent.hear(proto::outcome_of(leave));
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(agent.session.is_over());
}

TEST_CASE("a worker that fails while the service is away is told of, and what is waited for") {
  Script agent;
  agent.begin();
  proto::WorkerFailed failed;
  failed.local_rank = 1;
  failed.exit = {false, 3, false};
  failed.ran_for = failed.at = 6s;
  SECTION("the service is there: it tells what follows") {
    agent.submit(failed);
    CHECK(agent.lines.empty());
  }
  SECTION("it is not") {
    agent.fail();
    agent.pass(100ms);
    agent.fail(true, "Connection refused");
    agent.submit(failed);
    REQUIRE(agent.lines.size() == 1);
    CHECK(agent.lines[0] ==
          "local rank 1 exited with code 3 after 6.0 s; the rendezvous at node1:29400 does not "
          "answer, which decides whether the job restarts: waiting for it for 300 s");
  }
}

TEST_CASE("what becomes of the workers depends on how the service is away") {
  Script agent;
  agent.begin();
  agent.fail();
  const bool refused = GENERATE(true, false);
  for (int i = 0; i < 6; ++i) {
    agent.pass(500ms);
    agent.fail(refused, refused ? "Connection refused" : "No route to host");
  }
  REQUIRE(agent.lines.size() == 1);
  CHECK(agent.lines[0] ==
        (refused
             ? "the rendezvous at node1:29400 does not answer (Connection refused); the workers go "
               "on, and the job ends in 298 s if it stays so"
             : "the rendezvous at node1:29400 does not answer (No route to host); the workers go "
               "on, and are killed in 13 s if it stays so"));
}

TEST_CASE("a service that refuses connections renews the lease, for the lost time-out") {
  Script agent;
  agent.begin();
  const auto refuse_for = [&](std::chrono::nanoseconds time) {
    for (const auto end = agent.now + time; agent.now < end;) {
      agent.pass(500ms);
      agent.fail(true, "Connection refused");
    }
  };
  agent.fail();
  refuse_for(290s);
  CHECK(agent.count<Stop>() == 0);
  CHECK(agent.count<Finished>() == 0);
  REQUIRE(agent.lines.size() == 1);
  CHECK(
      agent.lines[0].starts_with("the rendezvous at node1:29400 does not answer (Connection "
                                 "refused); the workers go on, and the job ends in"));
  SECTION("it comes back") {
    agent.pass(1s);
    agent.take(rdzv::Connected{});
    agent.welcome(true, 1);
    CHECK(agent.lines.back() == "the rendezvous at node1:29400 answers");
    agent.pass(1min, true);
    CHECK(agent.count<Stop>() == 0);
  }
  SECTION("it does not") {
    refuse_for(15s);
    REQUIRE(agent.count<Finished>() == 1);
    const auto& finished = std::get<Finished>(agent.delivered.back());
    CHECK(finished.outcome == Finished::Outcome::failed);
    CHECK(finished.reason ==
          "the rendezvous at node1:29400 has not answered for 300 s: Connection refused");
    CHECK(agent.session.is_over());
    CHECK_FALSE(agent.session.deadline().has_value());
  }
}

TEST_CASE("an agent with workers asks often for a service, and less often in a large job") {
  const int nodes = GENERATE(4, 1000);
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  Round round;
  round.epoch = 1;
  round.group_world_size = nodes;
  agent.hear(round);
  agent.fail();
  int attempts = 0;
  for (const auto end = agent.now + 10s; agent.now < end;) {
    agent.connects = 0;
    agent.pass(1ms);
    if (agent.connects == 0) continue;
    ++attempts;
    agent.fail(false, "this rendezvous is a standby");
  }
  // Their pauses are of 0 to 100 ms, and of 0 to 1 s.
  CHECK(attempts > (nodes == 4 ? 100 : 10));
  CHECK(attempts < (nodes == 4 ? 500 : 60));
}

TEST_CASE("a job that ends with the node of its rendezvous names that, and the remedy") {
  Script agent;
  agent.in_agent = true;
  agent.begin();
  const bool refused = GENERATE(true, false);
  for (const auto end = agent.now + 301s; agent.now < end;) {
    agent.pass(500ms);
    agent.fail(refused, refused ? "Connection refused" : "No route to host");
  }
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        (refused ? "the rendezvous at node1:29400 has not answered for 300 s: Connection refused; "
                   "the node that ran it is gone, and the job needs it (with rdzvd on another "
                   "machine it does not)"
                 : "the rendezvous at node1:29400 has not answered for 300 s: No route to host; "
                   "the node that ran it is gone or cut off, and the job needs it (with rdzvd on "
                   "another machine it does not)"));
}

TEST_CASE("a forwarder that refuses connections does not renew the lease") {
  Script agent;
  agent.direct = false;
  agent.begin();
  agent.fail();
  for (int i = 0; i < 20; ++i) {
    agent.pass(500ms);
    agent.fail(true, "Connection refused");
  }
  REQUIRE(agent.lines.size() == 1);
  CHECK(agent.lines[0] ==
        "the rendezvous at node1:29400 does not answer (Connection refused); the workers go on, "
        "and are killed in 13 s if it stays so");
  CHECK(agent.count<Stop>() == 0);
  agent.pass(5s);
  CHECK(agent.count<Stop>() == 1);
}

TEST_CASE("what a direct connection has shown does not count for a later one by a forwarder") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(500ms);
  agent.take(rdzv::Connected{"the agent's end"});
  CHECK(agent.last<Resume>()->path == "the agent's end");
  agent.direct = false;
  agent.welcome(true, 1);
  agent.fail();
  for (int i = 0; i < 32; ++i) {
    agent.pass(500ms);
    agent.fail(true, "Connection refused");
  }
  CHECK(agent.count<Stop>() == 1);
}

TEST_CASE("a silent service does not stop a node after its workers have succeeded") {
  Script agent;
  agent.begin();
  agent.submit(proto::WorkersDone{0});
  agent.fail();
  agent.pass(299s);
  CHECK(agent.count<Stop>() == 0);
  agent.pass(10s);
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        "the rendezvous at node1:29400 has not answered for 300 s: no answer; this node's workers "
        "succeeded, the job's outcome is unknown");
}

TEST_CASE("a service that does not know the session: kill, and begin another") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.sent.clear();
  agent.welcome(false, 0, 9);
  REQUIRE(agent.count<Stop>() == 1);
  CHECK(std::get<Stop>(agent.delivered.back()).kill);
  CHECK(agent.sent.empty());
  SECTION("on the same connection") {}
  SECTION("although the connection fails meanwhile") {
    agent.fail();
    agent.pass(2s);
    agent.take(rdzv::Connected{});
    agent.welcome(false, 0, 9);
    CHECK(agent.count<Stop>() == 1);
  }
  agent.sent.clear();
  agent.submit(Stopped{0, {}});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  CHECK(agent.session.own_id() == "a/2");
  agent.submit(Join{});
  agent.welcome(false, 0, 9);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(agent.last<Numbered>()->seq == 1);
  agent.start_round(1, 10);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE("a node that leaves while it is fenced leaves in its new session") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(16s);
  agent.submit(proto::Leave{15, ""});
  agent.submit(Stopped{0, {}});
  agent.pass(900ms);
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(std::holds_alternative<proto::Leave>(agent.last<Numbered>()->message));
}
