// The membership core after failures: whether and when there is another round; and rounds that are
// asked for.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using Catch::Matchers::Contains;
using rdzv::JobState;
using test::nodes;
using test::Script;

TEST_CASE("agents that were told that no round follows are never asked to join one") {
  proto::JobSettings settings = nodes(1, 1, 1);
  settings.restart.window = 60s;
  Script job(settings);
  job.join("a", 1);
  job.fail("a", 0);
  job.stopped("a");
  job.join("a", 1);
  job.pass(59s);
  job.fail("a", 0);
  REQUIRE(job.stop("a").final);
  job.pass(2s);  // the workers take their time to end, and the old restart leaves the window
  job.stopped("a");
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").no_restart == "1 of 1 restarts used within 1 min 0 s");
  CHECK(job.finished("a").restart_count == 1);
}

TEST_CASE("a restart with a back-off waits for it, and no longer") {
  proto::JobSettings settings = nodes(1, 1, 5);
  settings.restart.back_off = 4s;
  Script job(settings);
  job.join("a", 1);
  job.fail("a", 0);
  job.stopped("a");
  job.join("a", 1);
  CHECK(job.round("a").number == 1);  // the first comes at once
  CHECK(job.count<proto::RestartPlanned>("a") == 0);
  job.fail("a", 0);
  job.stopped("a");
  job.join("a", 1);
  CHECK(job.membership.state() == JobState::forming);
  REQUIRE(job.membership.deadline().has_value());
  CHECK(*job.membership.deadline() - job.now >= 3s);
  CHECK(*job.membership.deadline() - job.now <= 4s);
  const auto& planned = job.newest<proto::RestartPlanned>("a");
  CHECK(planned.delay == *job.membership.deadline() - job.now);
  CHECK(planned.restart_count == 2);
  CHECK(planned.max_restarts == 5);
  CHECK_THAT(planned.reason, Catch::Matchers::Contains("rank 0 killed by SIGKILL"));
  job.pass(4s);
  CHECK(job.round("a").number == 2);
}

TEST_CASE("those that wait for a restart are told of missing nodes only once its wait is over") {
  proto::JobSettings settings = nodes(1, 2, 5);
  settings.restart.back_off = 10s;
  settings.last_call = 2s;
  Script job(settings);
  job.join("a", 1);
  job.pass(2s);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(job.membership.state() == JobState::running);
    job.fail("a", 0);
    job.stopped("a");
    job.join("a", 1);
  }
  const auto delay = job.newest<proto::RestartPlanned>("a").delay;
  job.pass(delay - 1ms);
  CHECK(job.membership.state() == JobState::forming);
  CHECK(job.count<proto::Waiting>("a") == 0);
  job.pass(1ms);
  CHECK(job.membership.state() == JobState::running);
}

TEST_CASE("a signal ends the wait for a restart at once") {
  proto::JobSettings settings = nodes(1, 1, 5);
  settings.restart.back_off = 60s;
  Script job(settings);
  for (int i = 0; i < 2; ++i) {
    job.join("a", 1);
    job.fail("a", 0);
    job.stopped("a");
  }
  job.join("a", 1);
  job.say("a", proto::Leave{2, ""});
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::cancelled);
}

TEST_CASE("a cause that cannot heal ends the job although restarts are left") {
  Script job(nodes(1, 1, 5));
  job.join("a", 2);
  job.fail("a", 0, {false, 127, false});
  CHECK_FALSE(job.stop("a").final);
  job.stopped("a");
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").no_restart.find("127") != std::string::npos);
}

TEST_CASE("a job without progress on any node ends although restarts are left") {
  Script job(nodes(2, 2, 9));
  for (const std::uint64_t step : {7U, 7U, 6U}) {
    job.join("a", 1);
    job.join("b", 1);
    const auto round = job.round("a").number;
    job.fail("b", 0, {false, 1, false});
    job.say("a", proto::Stopped{round, {}, step});
    job.say("b", proto::Stopped{round, {}, step - 1});
  }
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").no_restart ==
        "crash loop: no progress in 3 rounds: none got beyond step 7");
}

TEST_CASE("a restart that is asked for starts all workers, and costs none") {
  Script job(nodes(2, 3));
  job.join("a");
  job.say("a", proto::AskRestart{});  // no round is out
  CHECK(job.membership.state() == JobState::forming);
  job.join("b");
  job.pass(30s);
  REQUIRE(job.membership.state() == JobState::running);
  job.say("stranger", proto::AskRestart{});
  CHECK(job.membership.state() == JobState::running);
  SECTION("of a round in which nobody is done") {
    job.say("b", proto::AskRestart{});
    for (const char* const agent : {"a", "b"}) {
      CHECK(job.stop(agent).reason == "a restart was asked for on b");
      CHECK(job.stop(agent).may_save);
      CHECK_FALSE(job.stop(agent).keep);
      CHECK_FALSE(job.stop(agent).final);
    }
    job.say("a", proto::AskRestart{});  // it is on its way
    job.come_back("a");
    job.come_back("b");
    REQUIRE(job.membership.state() == JobState::running);
    CHECK(job.round("a").number == 1);
    CHECK(job.round("a").reason == "a restart was asked for on b");
    CHECK(job.membership.restart_count() == 0);
    job.fail("a", 0);
    CHECK(job.stop("a").keep);  // as ever
  }
  SECTION("a node that is done would do its work again") {
    job.done("b");
    job.say("a", proto::AskRestart{});
    CHECK(job.membership.state() == JobState::running);
    CHECK_THAT(job.newest<proto::Remark>("a").text, Contains("have ended already"));
  }
}
