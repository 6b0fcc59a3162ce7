// An agent's session with a service that does not keep to the protocol: what counts in which state.
#include <random>

#include "tests/support/checked_session.hpp"
#include "tests/unit/rendezvous/client/session_script.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;
using Script = SessionScript;

namespace {

rdzv::SessionSettings short_times() {
  return {
      .agent = "a", .service = "node1:29400", .lease = 3s, .join_timeout = 3s, .lost_timeout = 10s};
}

Welcome random_welcome(std::minstd_rand& random) {
  Welcome welcome;
  welcome.epoch = 1 + random() % 2;
  welcome.resumed = random() % 2 == 0;
  welcome.acknowledged = random() % 4;
  welcome.lease = std::chrono::milliseconds(random() % 6'000);
  welcome.keep_alive_period = random() % 8 == 0 ? 0ns : welcome.lease / 5;
  welcome.direct = random() % 2 == 0;
  welcome.clock = random() % 2;
  return welcome;
}

proto::MembershipMessage random_job_message(std::minstd_rand& random) {
  const proto::RoundNumber number = random() % 3;
  switch (random() % 6) {
    case 0:
      return Stop{number, "b failed"};
    case 1:
      return proto::Remark{"hello"};
    case 2:
      return proto::Check{number};
    case 3:
      return proto::RestartPlanned{"b failed", 1s, 1, 3};
    case 4:
      if (random() % 8 == 0) return Finished{};
      [[fallthrough]];
    default: {
      Round round;
      round.number = number;
      round.epoch = 1 + random() % 2;
      return round;
    }
  }
}

proto::ServiceMessage random_service_message(std::minstd_rand& random) {
  switch (random() % 8) {
    case 0:
      return proto::Prove{};
    case 1:
      return proto::Status{};
    case 2:
      return proto::Refused{
          random() % 4 == 0 ? proto::Refused::Why::wrong_secret : proto::Refused::Why::limit,
          "no place"};
    case 3:
    case 4:
      return random_welcome(random);
    case 5:
      return proto::Alive{random() % 6, {}, {}, random() % 4};
    default:
      return random_job_message(random);
  }
}

proto::AgentMessage random_agent_message(std::minstd_rand& random) {
  const proto::RoundNumber number = random() % 3;
  switch (random() % 8) {
    case 0:
      return proto::Started{number};
    case 1:
      return proto::WorkersDone{number};
    case 2:
      return proto::WorkerFailed{};
    case 3:
      if (random() % 4 == 0) return Leave{15, "stopped by SIGTERM"};
      [[fallthrough]];
    case 4:
      return Join{};
    default:
      return Stopped{number, {}};
  }
}

rdzv::SessionEvent random_event(std::minstd_rand& random) {
  switch (random() % 8) {
    case 0:
    case 1:
      return rdzv::Connected{};
    case 2:
      return rdzv::ConnectionFailed{random() % 2 == 0, "it failed"};
    case 3:
    case 4:
      return rdzv::Submitted{random_agent_message(random), {}};
    default:
      return rdzv::ServiceSaid{random_service_message(random)};
  }
}

}  // namespace

TEST_CASE("messages before welcome keep no agent beyond its join time-out") {
  const auto is_over = [](const proto::ServiceMessage& message) {
    Script agent(short_times());
    for (int attempt = 0; attempt < 20 && !agent.session.is_over(); ++attempt) {
      agent.take(rdzv::Connected{});
      agent.hear(message);
      agent.pass(500ms);
    }
    REQUIRE(agent.count<Finished>() == 1);
    const auto& finished = std::get<Finished>(agent.delivered.back());
    CHECK_THAT(finished.reason, Contains("no rendezvous answered at node1:29400 for 3 s"));
    CHECK_THAT(finished.reason, Contains("it breaks the protocol of a rendezvous"));
    CHECK(agent.delivered.size() == 1);
    CHECK(agent.last<proto::Bye>() == nullptr);
    return agent.session.is_over();
  };
  Finished finished;
  finished.outcome = Finished::Outcome::succeeded;
  CHECK(is_over(finished));
  CHECK(is_over(proto::Remark{"hello"}));
  CHECK(is_over(Round{}));
  CHECK(is_over(proto::Alive{}));
  CHECK(is_over(proto::Prove{}));
  CHECK(is_over(proto::Status{}));
  CHECK(is_over(Welcome{}));  // a lease of nothing
}

TEST_CASE("messages before welcome do not prolong the wait for a lost rendezvous") {
  Script agent({.agent = "a", .service = "node1:29400", .lost_timeout = 40s});
  agent.begin();
  agent.fail();
  for (int attempt = 0; attempt < 90; ++attempt) {
    agent.take(rdzv::Connected{});
    agent.hear(proto::Remark{"hello"});
    agent.pass(500ms);
    if (agent.count<Stop>() == 1) agent.submit(Stopped{0, {}});
  }
  CHECK(agent.count<Stop>() == 1);
  CHECK(agent.count<proto::Remark>() == 0);
  REQUIRE(agent.count<Finished>() == 1);
  CHECK_THAT(std::get<Finished>(agent.delivered.back()).reason,
             Contains("has not answered for 40 s"));
}

TEST_CASE("a lost time-out below the lease that the service gives is that lease") {
  Script agent({.agent = "a", .service = "node1:29400", .lease = 3s, .lost_timeout = 3s});
  agent.begin();
  agent.pass(60s, true);
  CHECK(agent.delivered.size() == 1);
  agent.fail();
  agent.pass(14s);
  CHECK(agent.count<Finished>() == 0);
  agent.pass(2s);
  CHECK(agent.count<Finished>() == 1);
}

TEST_CASE("a service that welcomes and then hangs up is not asked without a pause") {
  Script agent;
  for (int attempt = 0; attempt < 2000; ++attempt) {
    agent.take(rdzv::Connected{});
    agent.welcome(attempt > 0);
    agent.fail();
    agent.pass(10ms);
  }
  CHECK(agent.connects < 100);
}

TEST_CASE("in any history a session sends what its state allows and ends within its time-outs") {
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    std::minstd_rand random(seed);
    CheckedSession session;
    for (int step = 0; step < 80; ++step) {
      session.take(random_event(random));
      if (random() % 3 == 0) session.pass(std::chrono::milliseconds(random() % 1'500));
    }
    session.fall_silent();
  }
}
