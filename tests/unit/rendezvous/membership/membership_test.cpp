// The membership core, driven by scripted agents and a clock moved by hand.
#include "rendezvous/membership/membership.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobState;
using rdzv::Membership;
using test::nodes;
using test::Script;

TEST_CASE("one member forms a round at once, and the job ends when its workers are done") {
  Script job(nodes(1, 1));
  job.join("a", 4);
  REQUIRE(job.membership.state() == JobState::running);
  const proto::Round& round = job.round("a");
  CHECK(round.number == 0);
  CHECK(round.reason == "first round");
  CHECK(round.world_size == 4);
  CHECK(round.first_rank == 0);
  CHECK(round.master_addr == "a");
  CHECK(round.master_port == 1000);
  job.done("a");
  CHECK(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::succeeded);
}

TEST_CASE("three agents form, fail, re-form and end") {
  Script job(nodes(3, 3, 1));
  job.join("node10", 2);
  job.join("node2", 3);
  CHECK(job.membership.state() == JobState::forming);
  job.join("node1", 1);
  REQUIRE(job.membership.state() == JobState::running);

  // Natural order of names; every agent got its own numbers only.
  CHECK(job.round("node1").first_rank == 0);
  CHECK(job.round("node2").first_rank == 1);
  CHECK(job.round("node10").first_rank == 4);
  for (const char* agent : {"node1", "node2", "node10"}) {
    CHECK(job.round(agent).world_size == 6);
    CHECK(job.round(agent).group_world_size == 3);
    CHECK(job.round(agent).role_world_size == 6);
    CHECK(job.round(agent).master_addr == "node1");
    CHECK(job.round(agent).restart_count == 0);
  }

  job.fail("node2", 1);
  CHECK(job.membership.state() == JobState::stopping);
  for (const char* agent : {"node1", "node2", "node10"}) {
    CHECK(job.stop(agent).round == 0);
    CHECK_FALSE(job.stop(agent).final);
    CHECK(job.stop(agent).reason == "rank 2 on node2 killed by SIGKILL (signal 9) after 2.5 s");
  }
  // Victims fail too: that is no news. The budget is touched when all have stopped.
  job.fail("node1", 0, {false, 1, false});
  CHECK(job.membership.restart_count() == 0);

  job.stopped("node10");
  job.join("node10", 2);
  job.stopped("node1");
  job.join("node1", 1);
  CHECK(job.membership.state() == JobState::stopping);
  job.stopped("node2");
  CHECK(job.membership.state() == JobState::forming);
  CHECK(job.membership.restart_count() == 1);
  job.join("node2", 3);
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("node2").number == 1);
  CHECK(job.round("node2").restart_count == 1);
  CHECK(job.round("node2").first_rank == 1);
  CHECK(job.round("node2").reason == "rank 2 on node2 killed by SIGKILL (signal 9) after 2.5 s");

  job.done("node1");
  job.done("node2");
  CHECK(job.membership.state() == JobState::running);
  job.done("node10");
  CHECK(job.membership.state() == JobState::finished);
  for (const char* agent : {"node1", "node2", "node10"}) {
    CHECK(job.finished(agent).outcome == proto::Finished::Outcome::succeeded);
    CHECK(job.finished(agent).restart_count == 1);
  }
}

TEST_CASE("a failure with no restart left ends the job and names the culprit") {
  Script job(nodes(2, 2, 0));
  job.join("a", 2);
  job.join("b", 2);
  job.fail("b", 1, {false, 3, false});
  job.fail("a", 0, {true, 15, false});  // a victim, stopped by us
  job.stopped("a");
  CHECK(job.membership.state() == JobState::stopping);
  job.stopped("b");
  REQUIRE(job.membership.state() == JobState::finished);
  const proto::Finished& end = job.finished("a");
  CHECK(end.outcome == proto::Finished::Outcome::failed);
  REQUIRE(end.verdict.has_value());
  CHECK(end.verdict->culprit.rank == 3);
  CHECK(end.verdict->culprit.agent == "b");
  CHECK(end.verdict->culprit.failure.exit == ExitStatus{false, 3, false});
  CHECK(end.verdict->victims.empty());
}

TEST_CASE("the restart budget is counted once for the job and then used up") {
  Script job(nodes(1, 1, 2));
  job.join("a", 2);
  for (int restart = 1; restart <= 2; ++restart) {
    job.fail("a", 0);
    job.fail("a", 1);
    job.stopped("a");
    job.join("a", 2);
    CHECK(job.round("a").restart_count == restart);
    CHECK(job.round("a").number == static_cast<proto::RoundNumber>(restart));
  }
  job.fail("a", 0);
  CHECK(job.stop("a").final);
  job.stopped("a");
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::failed);
  CHECK(job.finished("a").restart_count == 2);
}

TEST_CASE("a worker that cannot be started is not tried again") {
  Script job(nodes(1, 1, 5));
  job.join("a", 1);
  proto::WorkerFailed failed;
  failed.error = "No such file or directory";
  job.say("a", failed);
  job.stopped("a");
  CHECK(job.membership.restart_count() == 0);
  CHECK(job.finished("a").no_restart.find("cannot be started") != std::string::npos);
}

TEST_CASE("a failure without later evidence is judged by what was known at once") {
  Script job(nodes(1, 2, 0));
  job.join("a", 2);
  job.join("b", 2);
  proto::WorkerFailed failed = test::failed_in(0);
  failed.pid = 77;
  failed.at = 3s;
  std::string reason;
  SECTION("its end") {
    failed.exit = {false, 7, false};
    reason = "rank 2 on b exited with code 7 after 3.0 s";
  }
  SECTION("a hang") {
    failed.hang = "at step 5, silent for 60 s";
    reason = "rank 2 on b hangs: at step 5, silent for 60 s";
  }
  job.say("b", failed);
  CHECK(job.stop("a").reason == reason);
  job.lose("b");
  job.stopped("a");
  REQUIRE(job.finished("a").verdict.has_value());
  CHECK(job.finished("a").reason == reason);
  CHECK(job.finished("a").verdict->culprit.failure.pid == 77);
}

TEST_CASE("the culprit is judged when all have stopped and sent their evidence") {
  Script job(nodes(2, 2, 1));
  job.join("a", 2);
  job.join("b", 2);
  job.fail("a", 1, {false, 1, false});  // dies first, of its peer's end
  proto::WorkerFailure victim;
  victim.local_rank = 1;
  victim.exit = {false, 1, false};
  victim.evidence = {proto::EvidenceKind::exception_line, 20ms, "Connection reset by peer",
                     "connection reset by peer"};
  proto::WorkerFailure culprit;
  culprit.exit = {true, 15, false};
  culprit.evidence = {proto::EvidenceKind::exception_line, 10ms, "ValueError: bad lr", ""};
  job.say("a", proto::Stopped{0, {victim}});
  CHECK(job.membership.state() == JobState::stopping);
  job.say("b", proto::Stopped{0, {culprit}});
  job.join("a", 2);
  job.join("b", 2);
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("a").reason.starts_with("rank 2 "));
  CHECK(job.membership.restart_count() == 1);
}

TEST_CASE("an agent stopped by a signal ends the job of one member as cancelled") {
  Script job(nodes(1, 1, 3));
  SECTION("while its workers run") {
    job.join("a", 2);
    job.say("a", proto::Leave{2, ""});
    CHECK(job.stop("a").final);
    job.stopped("a");
  }
  SECTION("while a failed round stops") {
    job.join("a", 2);
    job.fail("a", 0);
    CHECK_FALSE(job.stop("a").final);
    job.say("a", proto::Leave{2, ""});
    job.stopped("a");
  }
  SECTION("before it joined others") {
    Script two(nodes(2, 2));
    two.join("a", 2);
    two.say("a", proto::Leave{2, ""});
    CHECK(two.finished("a").signal == 2);
    return;
  }
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::cancelled);
  CHECK(job.finished("a").signal == 2);
  CHECK(job.finished("a").reason == "stopped by SIGINT");
}

TEST_CASE("an agent that cannot join gets the outcome, and the job waits for others") {
  Script job(nodes(1, 1));
  job.say("a", proto::Leave{0, "port 80 is taken"});
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::failed);
  CHECK(job.finished("a").reason == "port 80 is taken");
  CHECK(job.membership.state() == JobState::forming);
  job.join("b");
  CHECK(job.membership.state() == JobState::running);
}

TEST_CASE("a signal during the last stop of a failed job leaves the failure as the outcome") {
  Script job(nodes(1, 1));
  job.join("a", 2);
  job.fail("a", 1, {false, 7, false});
  job.say("a", proto::Leave{15, ""});
  job.stopped("a");
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::failed);
  CHECK(job.finished("a").verdict->culprit.rank == 1);
}

TEST_CASE("the survivors of a lost node re-form without using up a restart") {
  Script job(nodes(1, 3, 0));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.lose("b");
  CHECK(job.stop("a").reason == "b (ranks 2 and 3) was lost: its connection ended");
  for (const char* agent : {"a", "c"}) {
    job.stopped(agent);
    job.join(agent);
  }
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("c").world_size == 4);
  CHECK(job.round("c").first_rank == 2);
  CHECK(job.round("c").restart_count == 0);
}

TEST_CASE("fewer than max nodes form a round when the last call is over") {
  Script job(nodes(2, 4));
  job.join("a");
  job.pass(10s);
  job.join("b");
  job.pass(29s);
  CHECK(job.membership.state() == JobState::forming);
  job.join("c");
  job.pass(999ms);
  CHECK(job.membership.state() == JobState::forming);
  job.pass(1ms);
  CHECK(job.membership.state() == JobState::running);
  CHECK(job.round("a").group_world_size == 3);
}

TEST_CASE(
    "a round that never forms ends the job at the join timeout, naming the nodes that were there") {
  Script job(nodes(2, 2));
  job.join("a");
  job.pass(600s);
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").reason ==
        "no round formed within the join timeout of 600 s: 1 of at least 2 nodes joined");
}

TEST_CASE("a newcomer grows a round that has room, and waits as a spare in a full one") {
  Script job(nodes(1, 2));
  job.join("a");
  job.pass(30s);
  REQUIRE(job.membership.state() == JobState::running);
  job.join("b");
  CHECK(job.stop("a").reason == "b joined");
  job.stopped("a");
  job.join("a");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("a").group_rank == 0);  // sticky
  CHECK(job.round("b").group_rank == 1);
  job.join("c");
  CHECK(job.membership.state() == JobState::running);
  CHECK(job.count<proto::Stop>("a") == 1);
  job.done("a");
  job.done("b");
  CHECK(job.finished("c").outcome == proto::Finished::Outcome::succeeded);
}

TEST_CASE("messages about an old round are ignored") {
  Script job(nodes(1, 1, 3));
  job.join("a", 2);
  job.fail("a", 0);
  job.stopped("a");
  job.join("a", 2);
  job.say("a", proto::WorkersDone{0});
  job.say("a", test::failed_in(0));
  job.say("a", proto::Stopped{0, {}});
  CHECK(job.membership.state() == JobState::running);
  CHECK(job.membership.restart_count() == 1);
}

TEST_CASE("a requested group rank is honoured") {
  Script job(nodes(2, 2));
  proto::Join join = job.join_of("a");
  join.requested_group_rank = 1;
  job.say("a", join);
  join.node_name = "b";
  join.requested_group_rank = 0;
  job.say("b", join);
  CHECK(job.round("a").group_rank == 1);
  CHECK(job.round("b").group_rank == 0);
}
