// How the membership core compares times of several nodes.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobState;
using test::nodes;
using test::Script;

TEST_CASE("failures of two nodes are compared in job time, whenever their rounds began") {
  Script job(nodes(2, 2));
  job.join("a");
  job.join("b");
  const auto report = [&](const std::string& agent, std::chrono::nanoseconds began,
                          std::chrono::nanoseconds at) {
    proto::WorkerFailure failure;
    failure.exit = {false, 1, false};
    failure.evidence = {proto::EvidenceKind::exception_line, at, "ValueError in " + agent, ""};
    failure.ended_at = at + 5ms;
    job.say(agent, proto::Stopped{0, {failure}, std::nullopt, {}, proto::JobTime{began, 100us}});
  };
  job.fail("b", 0, {false, 1, false});
  report("a", 10s + 500ms, 20ms);  // later, though by its own round it was sooner
  report("b", 10s, 400ms);
  const auto verdict = job.finished("a").verdict;
  REQUIRE(verdict.has_value());
  CHECK(verdict->culprit.rank == 2);
  CHECK(verdict->culprit.failure.evidence.at == 400ms);
  CHECK(verdict->culprit.failure.evidence.uncertainty == 100us);
  REQUIRE(verdict->victims.size() == 1);
  CHECK(verdict->victims[0].failure.evidence.at == 520ms);
  CHECK(verdict->victims[0].failure.ended_at == 525ms);
}

TEST_CASE("failures that services with different clocks were told are compared by one clock") {
  Script job(nodes(2, 2));
  job.join("a");
  job.join("b");
  const auto report = [&](const std::string& agent, std::chrono::nanoseconds at,
                          proto::JobTime began) {
    proto::WorkerFailure failure;
    failure.exit = {false, 1, false};
    failure.evidence = {proto::EvidenceKind::exception_line, at, "ValueError in " + agent, ""};
    job.say(agent, proto::Stopped{0, {failure}, std::nullopt, {}, began});
  };
  const auto tell_again = [&](const std::string& agent, proto::JobTime began) {
    job.say(agent, proto::Stopped{0, {}, std::nullopt, {}, began});
  };
  job.fail("b", 0, {false, 1, false});
  report("b", 300ms, {10s, 1ms, 7});
  report("a", 200ms, {500s, 1ms, 8});  // the second service: it counts otherwise
  REQUIRE(job.membership.state() == JobState::stopping);
  SECTION("once the other node has told its time again") {
    SECTION("at once") {}
    SECTION("after it has joined again") { job.join("b"); }
    SECTION("to a third service, as both do") {
      tell_again("b", {70s - 800ms, 1ms, 9});
      CHECK(job.membership.state() == JobState::stopping);
      tell_again("a", {70s, 1ms, 9});
    }
    if (job.membership.state() == JobState::stopping) tell_again("b", {500s - 800ms, 1ms, 8});
    REQUIRE(job.membership.state() == JobState::finished);
    const auto verdict = job.finished("a").verdict;
    CHECK(verdict->culprit.rank == 2);
    CHECK(verdict->culprit.failure.evidence.at == 300ms);
    CHECK_FALSE(verdict->close_call.has_value());
    REQUIRE(verdict->victims.size() == 1);
    CHECK(verdict->victims[0].failure.evidence.at == 1000ms);
  }
  SECTION("as far as that can be told, where the other node is lost") {
    job.lose("b");
    REQUIRE(job.membership.state() == JobState::finished);
    const auto verdict = job.finished("a").verdict;
    CHECK(verdict->culprit.rank == 0);
    REQUIRE(verdict->close_call.has_value());
    CHECK(verdict->close_call->within == 301ms);
  }
}
