// Which node reports a job that is over, and what it is told for that.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using test::nodes;
using test::Script;

TEST_CASE("a spare does not report a job of which it had a part in an older round only") {
  Script job(nodes(2, 2, 1));
  job.join("a");
  job.join("b");
  job.join("c");
  job.fail("a", 0);
  job.stopped("a");
  job.come_back("b");
  job.pass(30s);  // a does not come back in time
  REQUIRE(job.round("c").number == 1);
  job.join("a");
  job.done("b");
  job.done("c");
  CHECK(job.finished("b").report_at.empty());
  CHECK(job.finished("a").report_at == "b");
  CHECK(job.finished("c").report_at == "b");
}

TEST_CASE("one node reports a failure in full, and the culprit's does") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.fail("b", 1);
  for (const char* agent : {"a", "b", "c"}) {
    proto::Stopped stopped{job.round(agent).number, {}};
    if (std::string(agent) == "b") {
      proto::WorkerFailure failure;
      failure.local_rank = 1;
      failure.exit = {true, 9, false};
      failure.last_lines = {"it hurts"};
      stopped.failures = {failure};
    }
    job.say(agent, stopped);
  }
  REQUIRE(job.membership.outcome() != nullptr);
  const auto told = [&](const std::string& agent) { return job.finished(agent); };
  CHECK(told("a").report_at.empty());
  CHECK(told("a").verdict->culprit.failure.last_lines.size() == 1);
  CHECK(told("a").verdict->culprit.node == "b");
  CHECK(told("b").report_at == "a");
  CHECK(told("b").verdict->culprit.failure.last_lines.size() == 1);
  CHECK(told("c").report_at == "a");
  CHECK(told("c").verdict->culprit.rank == 3);
  CHECK(told("c").verdict->culprit.failure.last_lines.empty());
  CHECK(told("c").reason.starts_with("rank 3 on b "));
}

TEST_CASE("the node that reports the job is told all nodes of its last round") {
  Script job(nodes(2, 2, 1));
  job.join("a");
  job.join("b");
  job.join("spare");
  job.done("a");
  job.done("b");
  const auto told = job.finished("a").nodes;
  REQUIRE(told.size() == 2);
  CHECK(told[0].name == "a");
  CHECK(told[1].name == "b");
  CHECK(told[1].group_rank == 1);
  CHECK(told[1].first_rank == told[0].workers);
  CHECK(job.finished("b").nodes.empty());
  CHECK(job.finished("spare").nodes.empty());
}

TEST_CASE("the node that reports is told from another agent of its machine") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) {
    proto::Join join = job.join_of(agent);
    join.node_name = std::string(agent) == "c" ? "box2" : "box1";
    job.say(agent, join);
  }
  for (const char* agent : {"a", "b", "c"}) job.done(agent);
  CHECK(job.finished("a").report_at.empty());
  CHECK(job.finished("b").report_at == "box1 (group rank 0)");
  CHECK(job.finished("c").report_at == "box1 (group rank 0)");
}
