// The membership core when nodes come, go, are lost and come back.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using proto::Finished;
using rdzv::JobState;
using test::nodes;
using test::Script;
using test::victim;

namespace {

proto::Leave cancels(int signal) { return {signal, "", true}; }

}  // namespace

TEST_CASE("a node that stops last keeps its seat although a spare waits for one") {
  Script job(nodes(2, 2, 1));
  job.join("a");
  job.join("b");
  job.join("0-spare");
  job.fail("a", 0);
  job.come_back("a");
  job.stopped("b");
  CHECK(job.membership.state() == JobState::forming);
  job.join("b");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("b").number == 1);
  CHECK(job.round("b").group_rank == 1);
  CHECK(job.count<proto::Round>("0-spare") == 0);
}

TEST_CASE("a spare takes the seat of a lost node in the next round") {
  Script job(nodes(2, 2));
  job.join("a");
  job.join("b");
  job.join("spare");
  job.lose("a");
  job.come_back("b");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("b").group_rank == 0);
  CHECK(job.round("b").first_rank == 0);
  CHECK(job.round("spare").group_rank == 1);
  CHECK(job.round("spare").reason == "a (ranks 0 and 1) was lost: its connection ended");
  CHECK(job.round("spare").master_addr == "b");
}

TEST_CASE("after a failure the nodes of the round start again without a last call") {
  Script job(nodes(1, 4, 1));
  job.join("a");
  job.join("b");
  job.pass(30s);
  job.fail("a", 0);
  job.come_back("a");
  CHECK(job.membership.state() == JobState::stopping);
  job.come_back("b");
  CHECK(job.membership.state() == JobState::running);
  CHECK(job.round("b").group_world_size == 2);
}

TEST_CASE("a node that stops and never comes back holds the others for a last call only") {
  Script job(nodes(1, 2, 1));
  job.join("a");
  job.join("b");
  job.fail("a", 0);
  job.come_back("a");
  job.stopped("b");
  job.pass(29s);
  CHECK(job.membership.state() == JobState::forming);
  SECTION("it is lost") {
    job.lose("b");
    REQUIRE(job.membership.state() == JobState::running);
  }
  SECTION("the call is over") {
    job.pass(1s);
    REQUIRE(job.membership.state() == JobState::running);
    job.join("b");
    CHECK(job.stop("a").reason == "b joined");
  }
  CHECK(job.round("a").world_size == 2);
}

TEST_CASE("nodes that are too few wait for others and for their last call") {
  Script job(nodes(2, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.lose("a");
  job.stopped("b");
  job.lose("c");
  job.join("b");
  CHECK(job.membership.state() == JobState::forming);
  job.pass(60s);
  job.join("d");
  CHECK(job.membership.state() == JobState::forming);
  job.pass(30s);
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("b").group_rank == 0);
  CHECK(job.round("d").group_rank == 1);
}

TEST_CASE("newcomers within the delay cost one restart of the workers") {
  Script job(nodes(1, 4));
  job.join("a");
  job.pass(30s);
  job.join("b");
  CHECK(job.membership.state() == JobState::running);
  job.pass(3s);
  job.join("c");
  job.pass(1s);
  CHECK(job.membership.state() == JobState::running);
  job.pass(1s);
  CHECK(job.stop("a").reason == "b, c joined");
  CHECK(job.stop("a").may_save);
  job.come_back("a");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("c").group_world_size == 3);
  CHECK(job.membership.restart_count() == 0);
  SECTION("the last seat is taken at once") {
    job.join("d");
    CHECK(job.stop("a").reason == "d joined");
  }
  SECTION("a round with a node that is done does not grow") {
    job.say("b", proto::WorkersDone{1});
    job.join("d");
    job.pass(60s);
    CHECK(job.membership.state() == JobState::running);
  }
}

TEST_CASE("a newcomer that goes before the delay is over leaves the round alone") {
  Script job(nodes(1, 3));
  job.join("a");
  job.pass(30s);
  job.join("b");
  job.say("b", proto::Leave{15, ""});
  CHECK(job.finished("b").reason == "stopped by SIGTERM");
  CHECK_FALSE(job.membership.deadline().has_value());
  job.pass(60s);
  CHECK(job.count<proto::Stop>("a") == 0);
}

TEST_CASE("a job that does not grow keeps newcomers as spares") {
  proto::JobSettings settings = nodes(1, 3);
  settings.grow_delay.reset();
  Script job(settings);
  job.join("a");
  job.pass(30s);
  job.join("b");
  job.pass(60s);
  CHECK(job.membership.state() == JobState::running);
  job.done("a");
  CHECK(job.finished("b").outcome == Finished::Outcome::succeeded);
}

TEST_CASE("workers that are stopped for a failure are not told to save their state") {
  Script job(nodes(1, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  SECTION("of a worker") { job.fail("b", 0); }
  SECTION("of a node") { job.lose("b"); }
  SECTION("of an agent") { job.say("b", proto::Leave{0, "no store can listen"}); }
  SECTION("also if a user ends the job then") {
    job.fail("b", 0);
    job.say("c", cancels(2));
  }
  CHECK_FALSE(job.stop("a").may_save);
  CHECK(job.count<proto::Stop>("a") == 1);
}

TEST_CASE("a node that is told to stop leaves, and the others go on without it") {
  Script job(nodes(1, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.say("b", proto::Leave{15, ""});
  CHECK(job.stop("b").final);
  CHECK_FALSE(job.stop("a").final);
  CHECK(job.stop("a").reason == "b was stopped by SIGTERM");
  // Nothing has failed, so no step needs to be lost.
  CHECK(job.stop("a").may_save);
  CHECK(job.stop("b").may_save);
  job.come_back("a");
  job.stopped("b");
  CHECK(job.finished("b").outcome == Finished::Outcome::cancelled);
  CHECK(job.finished("b").signal == 15);
  job.come_back("c");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("c").group_world_size == 2);
  CHECK(job.round("c").restart_count == 0);
}

TEST_CASE("a job that is cancelled on one node ends on all") {
  Script job(nodes(1, 3, 5));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.join("spare");
  SECTION("while the workers run") {
    job.say("b", cancels(2));
    CHECK(job.stop("a").final);
    CHECK(job.stop("a").reason == "the job was stopped by SIGINT on b");
    CHECK(job.stop("a").may_save);
    for (const char* agent : {"a", "c", "b"}) job.stopped(agent);
  }
  SECTION("while a failed round stops, by a node that has stopped already") {
    job.fail("a", 0);
    job.stopped("b");
    job.say("b", cancels(2));
    for (const char* agent : {"a", "c"}) job.stopped(agent);
  }
  SECTION("while a failed round stops, by one that has joined again") {
    job.fail("a", 0);
    job.come_back("b");
    job.say("b", cancels(2));
    for (const char* agent : {"a", "c"}) job.stopped(agent);
  }
  SECTION("by a node with workers that have succeeded") {
    job.done("b");
    job.say("b", cancels(2));
    for (const char* agent : {"a", "b", "c"}) job.stopped(agent);
  }
  SECTION("while nodes are waited for") {
    job.lose("a");
    job.come_back("b");
    job.say("b", cancels(2));
    job.stopped("c");
  }
  REQUIRE(job.membership.state() == JobState::finished);
  for (const char* agent : {"b", "c", "spare"}) {
    CHECK(job.finished(agent).outcome == Finished::Outcome::cancelled);
    CHECK(job.finished(agent).signal == 2);
    CHECK(job.count<Finished>(agent) == 1);
  }
}

TEST_CASE("a spare that is cancelled leaves, and the job goes on") {
  Script job(nodes(1, 3, 5));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.join("spare");
  SECTION("while the workers run") {
    job.say("spare", cancels(2));
    CHECK(job.membership.state() == JobState::running);
  }
  SECTION("while a round stops") {
    job.fail("a", 0);
    job.say("spare", cancels(2));
    CHECK(job.membership.state() == JobState::stopping);
  }
  SECTION("while the next round forms") {
    job.lose("a");
    job.stopped("b");
    job.stopped("c");
    job.say("spare", cancels(2));
    CHECK(job.membership.state() == JobState::forming);
  }
  CHECK(job.finished("spare").outcome == Finished::Outcome::cancelled);
  CHECK(job.finished("spare").signal == 2);
  for (const char* agent : {"a", "b", "c"}) CHECK(job.count<Finished>(agent) == 0);
}

TEST_CASE("the job ends with the node that has the rendezvous, also if that is a spare") {
  Script job(nodes(1, 2, 5));
  for (const char* agent : {"a", "b", "spare"}) job.join(agent);
  job.say("spare", proto::Leave{15, "", false, true});
  for (const char* agent : {"a", "b"}) {
    CHECK(job.stop(agent).final);
    job.stopped(agent);
  }
  for (const char* agent : {"a", "b", "spare"})
    CHECK(job.finished(agent).outcome == Finished::Outcome::cancelled);
}

TEST_CASE("a job with no round out is cancelled at once") {
  Script job(nodes(3, 3));
  job.join("a");
  job.join("b");
  job.say("b", cancels(1));
  CHECK(job.finished("a").reason == "stopped by SIGHUP on b");
  CHECK(job.finished("b").signal == 1);
}

TEST_CASE("a job that has lost all its nodes waits for them, for the join time-out") {
  Script job(nodes(1, 1, 3));
  job.join("a");
  SECTION("while they ran") {
    job.lose("a");
    CHECK(job.membership.state() == JobState::forming);
  }
  SECTION("after a failure") {
    job.fail("a", 0, {true, 11, false});
    job.lose("a");
    CHECK(job.membership.state() == JobState::forming);
    CHECK(job.membership.restart_count() == 1);
  }
  SECTION("while they waited") {
    job.fail("a", 0);
    job.come_back("a");
    job.lose("a");
  }
  SECTION("they come") {
    job.lose("a");
    job.join("a again");
    CHECK(job.round("a again").number == 1);
    return;
  }
  job.pass(601s);
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.membership.outcome()->reason.starts_with(
      "no round formed within the join timeout of 600 s: 0 of at least 1 nodes joined"));
}

TEST_CASE("changes of nodes are limited where the user limits them") {
  proto::JobSettings settings = nodes(1, 3);
  settings.max_node_changes = 1;
  Script job(settings);
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.lose("a");
  job.come_back("b");
  job.come_back("c");
  REQUIRE(job.membership.state() == JobState::running);
  job.lose("b");
  job.stopped("c");
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("c").reason == "b (ranks 0 and 1) was lost: its connection ended");
  REQUIRE(job.finished("c").lost_node.has_value());
  CHECK(job.finished("c").lost_node->node == "b");
  CHECK_FALSE(job.finished("c").verdict.has_value());
  CHECK(job.finished("c").no_restart == "1 of 1 changes of nodes used (--max-node-changes)");
}

TEST_CASE("a node that is lost after its workers have succeeded is not missed") {
  Script job(nodes(2, 2));
  job.join("a");
  job.join("b");
  job.done("a");
  if (GENERATE(true, false)) {
    job.lose("a");
  } else {
    job.say("a", proto::Leave{15, ""});
    CHECK(job.finished("a").signal == 15);
  }
  CHECK(job.membership.state() == JobState::running);
  SECTION("the job succeeds") {
    job.done("b");
    CHECK(job.finished("b").outcome == Finished::Outcome::succeeded);
  }
  SECTION("a failure elsewhere finds it gone") {
    job.fail("b", 0, {false, 1, false});
    CHECK(job.count<proto::Stop>("a") == 0);
    job.stopped("b");
    CHECK(job.membership.state() == JobState::finished);
  }
}

TEST_CASE("ten thousand nodes form, fail, form again and end") {
  constexpr int kNodes = 10'000;
  Script job(nodes(kNodes, kNodes, 1));
  const auto name = [](int i) { return "node" + std::to_string(i); };
  for (int i = kNodes - 1; i >= 0; --i) job.join(name(i), 8);
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round(name(1234)).group_rank == 1234);
  CHECK(job.round(name(1234)).first_rank == 1234 * 8);
  job.fail(name(7), 3);
  for (int i = 0; i < kNodes; ++i)
    job.say(name(i), proto::Stopped{0, {victim(0), victim(1), victim(2)}});
  for (int i = 0; i < kNodes; ++i) job.join(name(i), 8);
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round(name(9'999)).number == 1);
  for (int i = 0; i < kNodes; ++i) job.done(name(i));
  CHECK(job.finished(name(5)).outcome == Finished::Outcome::succeeded);
}
