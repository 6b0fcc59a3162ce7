// The report where workers only waited, and another one probably hangs.
#include "launcher/report/report_parts.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/report/report_json.hpp"
#include "proto/failure_text.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::check_report;
using test::has;
using test::said;
using test::timed_out_waiting;

TEST_CASE("the first line names the worker that still ran when another one timed out") {
  const agent::AgentResult result = timed_out_waiting();
  check_report(result);
  CHECK(proto::describe(*result.finished.verdict) ==
        "rank 1 exited with code 1 after 2.5 s; rank 0 probably hangs");
}

TEST_CASE("the first line names the node of a worker that still ran") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects[0].node = "node2";
  check_report(result);
  CHECK(has(proto::describe(verdict), "; rank 0 on node2 probably hangs"));
}

TEST_CASE("of many workers that still ran the first line names a few") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects.push_back({"local", 2, {2, 4243, {}, {}}});
  check_report(result, "two");
  CHECK(has(proto::describe(verdict), "; one of ranks 0, 2 probably hangs"));
  for (int rank = 3; rank < 9; ++rank)
    verdict.suspects.push_back({"local", rank, {rank, 1, {}, {}}});
  check_report(result, "eight");
}

TEST_CASE("of several workers that still ran the first line names the one furthest behind") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects = {{"local", 0, {0, 4241, {{7, ""}}, {}}},
                      {"local", 2, {2, 4243, {{5, ""}}, {}}},
                      {"local", 3, {3, 4244, {{6, ""}}, {}}}};
  check_report(result);
  CHECK(has(proto::describe(verdict), "; rank 2 probably hangs"));
  SECTION("and shows the stacks of no other one") {
    verdict.suspects[2].worker.stacks = {"#0  poll ()"};
    check_report(result, "stacks of another one");
    verdict.suspects[1].worker.stacks = {"#0  read ()"};
    check_report(result, "its own stacks");
  }
  SECTION("unless two are equally far behind") {
    verdict.suspects[2].worker.progress->step = 5;
    check_report(result, "two are equally far behind");
  }
  SECTION("unless a step is not known") {
    verdict.suspects[0].worker.progress.reset();
    check_report(result, "a step is not known");
  }
}

TEST_CASE("the first line names the worker that timed out, also if another one failed first") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  proto::FailedWorker other = verdict.culprit;
  other.rank = 2;
  other.failure.local_rank = 2;
  other.failure.evidence.at = 2450ms;
  verdict.culprit.failure.evidence.timed_out = false;
  SECTION("as a victim") {
    verdict.victims = {other};
    check_report(result, "as a victim");
  }
  SECTION("in the same way") {
    verdict.alike = {other};
    check_report(result, "in the same way");
  }
}

TEST_CASE("of several workers that timed out the first line names the first") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.alike = {verdict.culprit};
  verdict.alike[0].rank = 2;
  for (const auto& [at, rank] : {std::pair(2350ms, "2"), std::pair(2450ms, "1")}) {
    verdict.alike[0].failure.evidence.at = at;
    CHECK(has(said(result), std::string("when rank ") + rank + " timed out waiting\n"));
  }
  verdict.alike[0].failure.evidence.at = 2350ms;
  verdict.alike[0].failure.evidence.timed_out = false;
  CHECK(has(said(result), "when rank 1 timed out waiting\n"));
}

TEST_CASE("a worker that was suspended is not in the first line") {
  agent::AgentResult result = timed_out_waiting();
  result.finished.verdict->suspects[0].worker.suspended = true;
  check_report(result);
  CHECK_FALSE(has(proto::describe(*result.finished.verdict), "hangs"));
}

TEST_CASE("of a Python worker under gdb the first thread is shown and the others are counted") {
  agent::AgentResult result = timed_out_waiting();
  auto& stacks = result.finished.verdict->suspects[0].worker.stacks;
  stacks = {"by gdb:", "Thread 1:", "#0  select ()", "    (3 frames of Python's interpreter)"};
  check_report(result, "one");
  for (int thread = 0; thread < 20; ++thread) {
    stacks.push_back("Thread " + std::to_string(thread + 2) + ":");
    stacks.push_back("#0  epoll_wait ()");
  }
  check_report(result, "many");
  stacks.insert(stacks.begin() + 2, 40, "#0  poll ()");
  check_report(result, "many, and a long one");
}

TEST_CASE("the report of a failure has the culprit's log file") {
  agent::AgentResult result = test::failed({false, 1, false});
  result.culprit.log = "/logs/run7/attempt_0/1/stderr.log";
  check_report(result, "here");
  result.finished.verdict->culprit.node = "node2";
  check_report(result, "on another node");
}

TEST_CASE("a worker that had ended too early is named before the one that lost it") {
  agent::AgentResult result = test::timed_out_waiting();
  result.node_name = "host";
  auto& verdict = *result.finished.verdict;
  verdict.suspects.clear();
  verdict.ended = {{"local", 0, {0, 4241, 400ms}, ""}};
  check_report(result, "one");
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  REQUIRE(json["suspects"].size() == 1);
  CHECK(json["suspects"][0]["rank"] == 0);
  CHECK(json["suspects"][0]["exit_code"] == 0);
  CHECK(json["suspects"][0]["ended_seconds"] == 0.4);
  verdict.ended.push_back({"local", 2, {2, 4243, 900ms}, ""});
  check_report(result, "two");
}
