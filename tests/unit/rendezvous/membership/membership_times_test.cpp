// How the membership core compares times of several nodes.
#include <catch2/catch.hpp>
#include <optional>

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

namespace {

/// Two nodes that both have failures, told to services with clocks of their own. In truth b's
/// worker fails first: a's round begins 800 ms later, and its worker fails 200 ms after that.
class TwoServices {
 public:
  /// `began`: b's round, as it tells that first.
  explicit TwoServices(std::optional<proto::JobTime> began = {}) : job(nodes(1, 2)) {
    job.join("a");
    job.join("b");
    proto::WorkerFailed failed = test::failed_in(0);
    failed.exit = {false, 1, false};
    failed.round_began = began;
    job.say("b", failed);
  }
  void report(const std::string& agent, std::chrono::nanoseconds at, proto::JobTime began) {
    proto::WorkerFailure failure;
    failure.exit = {false, 1, false};
    failure.evidence = {proto::EvidenceKind::exception_line, at, "ValueError in " + agent, ""};
    job.say(agent, proto::Stopped{0, {failure}, std::nullopt, {}, began});
  }
  void tell_again(const std::string& agent, proto::JobTime began) {
    job.say(agent, proto::Stopped{0, {}, std::nullopt, {}, began});
  }
  void check_that_b_was_first() {
    REQUIRE(job.membership.state() == JobState::finished);
    const auto verdict = job.finished("a").verdict;
    CHECK(verdict->culprit.rank == 2);
    CHECK(verdict->culprit.failure.evidence.at == 300ms);
    CHECK_FALSE(verdict->close_call.has_value());
    REQUIRE(verdict->victims.size() == 1);
    CHECK(verdict->victims[0].failure.evidence.at == 1000ms);
  }

  Script job;
};

}  // namespace

TEST_CASE("failures that services with different clocks were told are compared by one clock") {
  TwoServices two;
  two.report("b", 300ms, {10s, 1ms, 7});
  two.report("a", 200ms, {500s, 1ms, 8});  // the second service: it counts otherwise
  REQUIRE(two.job.membership.state() == JobState::stopping);
  SECTION("once the other node has told its time again") {
    SECTION("at once") {}
    SECTION("after it has joined again") { two.job.join("b"); }
    SECTION("to a third service, as the first one does, too") {
      two.tell_again("b", {70s - 800ms, 1ms, 9});
      CHECK(two.job.membership.state() == JobState::stopping);
      two.tell_again("a", {70s, 1ms, 9});
    }
    if (two.job.membership.state() == JobState::stopping)
      two.tell_again("b", {500s - 800ms, 1ms, 8});
    two.check_that_b_was_first();
  }
  SECTION("as far as that can be told, where the other node is lost") {
    two.job.lose("b");
    REQUIRE(two.job.membership.state() == JobState::finished);
    const auto verdict = two.job.finished("a").verdict;
    CHECK(verdict->culprit.rank == 0);
    REQUIRE(verdict->close_call.has_value());
    CHECK(verdict->close_call->within == 301ms);
  }
  SECTION("unless the job is cancelled meanwhile") {
    two.job.say("a", proto::Leave{2, "", true});
    REQUIRE(two.job.membership.state() == JobState::finished);
    CHECK(two.job.finished("a").outcome == proto::Finished::Outcome::cancelled);
  }
}

TEST_CASE("a node that two services were told of shows how their clocks differ") {
  TwoServices two(proto::JobTime{10s, 1ms, 7});
  two.report("a", 200ms, {10s + 800ms, 1ms, 7});
  two.report("b", 300ms, {500s - 800ms, 1ms, 8});  // a has not come back yet
  two.check_that_b_was_first();
  CHECK(two.job.finished("a").verdict->victims[0].failure.evidence.uncertainty == 3ms);
}

TEST_CASE("nodes of a version that does not say by which clock it tells a time do not wait") {
  TwoServices two;
  SECTION("the newer one first") {
    two.report("a", 200ms, {10s + 800ms, 1ms, 7});
    two.report("b", 300ms, {10s, 1ms});
  }
  SECTION("the older one first") {
    two.report("b", 300ms, {10s, 1ms});
    two.report("a", 200ms, {10s + 800ms, 1ms, 7});
  }
  two.check_that_b_was_first();
}

TEST_CASE("an end by a clock that cannot be compared is not told as one before the failure") {
  Script job(nodes(1, 2));
  job.join("a");
  job.join("b");
  const proto::ClockId clock = GENERATE(proto::ClockId{7}, proto::ClockId{8});
  proto::Stopped ended;
  ended.ended = {{0, 55, 5ms}};
  ended.round_began = proto::JobTime{10s, 1ms, clock};
  proto::WorkerFailure failure;
  failure.exit = {false, 1, false};
  failure.evidence.kind = proto::EvidenceKind::exception_line;
  failure.evidence.at = 5s;
  failure.evidence.victim_phrase = "connection reset";
  job.fail("a", 0, {false, 1, false});
  job.say("b", ended);
  job.lose("b");
  job.say("a", proto::Stopped{0, {failure}, std::nullopt, {}, proto::JobTime{12s, 1ms, 8}});
  const auto verdict = job.finished("a").verdict;
  REQUIRE(verdict.has_value());
  CHECK(verdict->ended.size() == (clock == 8 ? 1 : 0));
}

TEST_CASE("a lost node explains failures also where another service hears the last of them") {
  Script job(nodes(1, 3, 0));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  const auto last_word = job.now.time_since_epoch();
  const auto stopped = [](std::chrono::nanoseconds after, proto::JobTime began) {
    proto::WorkerFailure failure;
    failure.exit = {false, 1, false};
    failure.evidence.kind = proto::EvidenceKind::own_exit;
    failure.evidence.at = after;
    return proto::Stopped{0, {failure}, std::nullopt, {}, began};
  };
  job.fail("a", 0, {false, 1, false});
  job.say("a", stopped(10s + 5ms, {last_word - 10s, 1ms, 7}));
  job.now += 16s;
  job.lose("c", proto::LossSign::silent, 16s, 7);
  // By the other one's clock the last word came at 100 s, as a's time by both shows.
  job.say("a", proto::Stopped{0, {}, std::nullopt, {}, proto::JobTime{90s, 1ms, 8}});
  SECTION("which came later than its last word") {
    job.say("b", stopped(10s + 5ms, {90s, 1ms, 8}));
    CHECK(job.membership.state() == JobState::forming);
  }
  SECTION("but not one that may have come before") {
    job.say("b", stopped(10s + 2ms, {90s, 1ms, 8}));
    REQUIRE(job.membership.state() == JobState::finished);
    CHECK(job.finished("a").verdict.has_value());
  }
}

TEST_CASE("a clock that was told in an earlier round counts no more") {
  Script job(nodes(1, 2, 5));
  const auto fail = [&](const std::string& agent, proto::JobTime began) {
    proto::WorkerFailed failed = test::failed_in(job.round(agent).number);
    failed.exit = {false, 1, false};
    failed.round_began = began;
    job.say(agent, failed);
  };
  job.join("a");
  job.join("b");
  fail("b", {10s, {}, 7});
  for (const char* agent : {"a", "b"}) job.come_back(agent);
  REQUIRE(job.round("b").number == 1);
  REQUIRE(job.membership.restart_count() == 1);
  // This agent does not say by which clock it tells the time. Its worker ends after the lost node.
  fail("b", {job.now.time_since_epoch(), {}, 0});
  job.lose("a", proto::LossSign::silent, 1s, 8);
  job.stopped("b");
  CHECK(job.membership.state() == JobState::forming);
  CHECK(job.membership.restart_count() == 1);
}
