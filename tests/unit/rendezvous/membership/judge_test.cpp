// What the reports of a round's nodes say: the culprit, or a node that was lost.
#include "rendezvous/membership/judge.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::Judge;

namespace {

proto::WorkerFailed failed_at(std::chrono::nanoseconds at, std::optional<proto::JobTime> began) {
  proto::WorkerFailed failed;
  failed.exit = {false, 1, false};
  failed.at = at;
  failed.round_began = began;
  return failed;
}

proto::Stopped stopped_with(std::chrono::nanoseconds at, std::optional<proto::JobTime> began) {
  proto::Stopped stopped;
  proto::WorkerFailure& failure = stopped.failures.emplace_back();
  failure.exit = {false, 1, false};
  failure.evidence.at = at;
  stopped.round_began = began;
  return stopped;
}

const std::string kA = "a";
const std::string kB = "b";

}  // namespace

TEST_CASE("nodes whose rounds began at different times are compared by one clock") {
  Judge judge;
  judge.note_failed({kB, "b", 1}, failed_at(100ms, proto::JobTime{10s, 1ms, 7}));
  judge.note_stopped({kA, "a", 0}, stopped_with(50ms, proto::JobTime{11s, 1ms, 7}));
  judge.note_stopped({kB, "b", 1}, stopped_with(100ms, proto::JobTime{10s, 1ms, 7}));
  const proto::Verdict verdict = judge.take_verdict();
  CHECK(verdict.culprit.node == "b");
  CHECK(verdict.culprit.rank == 1);
  CHECK(verdict.culprit.failure.evidence.at == 100ms);
}

TEST_CASE("a time by another clock is waited for while its node is there") {
  proto::JobSettings settings;
  settings.max_nodes = 2;
  rdzv::Roster roster(settings);
  for (const std::string& agent : {kA, kB}) roster.join(agent, {}, 0);
  Judge judge;
  judge.note_failed({kB, "b", 1}, failed_at(100ms, proto::JobTime{10s, 1ms, 7}));
  CHECK_FALSE(judge.awaits_times(roster));
  judge.note_stopped({kA, "a", 0}, stopped_with(50ms, proto::JobTime{500s, 1ms, 8}));
  CHECK(judge.awaits_times(roster));
  SECTION("it is told again by the newer clock") {
    judge.note_began_again(kB, proto::JobTime{499s, 1ms, 8});
    CHECK_FALSE(judge.awaits_times(roster));
    CHECK(judge.take_verdict().culprit.node == "b");
  }
  SECTION("the node is lost") {
    roster.erase(*roster.find(kB));
    CHECK_FALSE(judge.awaits_times(roster));
  }
}

TEST_CASE("a worker that ended after the last word of a lost node speaks for no fault of its own") {
  Judge judge;
  judge.note_failed({kB, "b", 1}, failed_at(2s, proto::JobTime{10s, 1ms, 7}));
  judge.note_stopped({kB, "b", 1}, stopped_with(2s, proto::JobTime{10s, 1ms, 7}));
  CHECK_FALSE(judge.lost_node_explains());
  proto::LostNode node;
  node.node = "a";
  SECTION("after it") {
    judge.note_lost(kA, node, {11s, {}, 7});
    CHECK(judge.lost_node_explains());
    judge.note_lost("c", node, {5s, {}, 7});
    CHECK(judge.lost_node()->more == 1);
  }
  SECTION("before it") {
    judge.note_lost(kA, node, {13s, {}, 7});
    CHECK_FALSE(judge.lost_node_explains());
  }
  SECTION("after the first of two") {
    judge.note_lost(kA, node, {13s, {}, 7});
    judge.note_lost("c", node, {11s, {}, 7});
    CHECK(judge.lost_node_explains());
  }
}

TEST_CASE("a round without failures has none, whatever its nodes report") {
  Judge judge;
  proto::Stopped stopped = stopped_with(1s, std::nullopt);
  stopped.furthest_step = 7;
  judge.note_stopped({kA, "a", 0}, stopped);
  CHECK_FALSE(judge.has_failures());
  CHECK(judge.furthest_step() == 7U);
  CHECK_FALSE(judge.lost_node().has_value());
}
