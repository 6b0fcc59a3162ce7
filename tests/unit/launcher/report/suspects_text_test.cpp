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
using test::has;
using test::said;
using test::timed_out_waiting;

TEST_CASE("the first line names the worker that still ran when another one timed out") {
  const agent::AgentResult result = timed_out_waiting();
  CHECK(said(result).starts_with(
      "ddprun: culprit: probably rank 0 (local rank 0, pid 4241), which was still running when "
      "rank 1 timed out waiting\n"
      "ddprun: failed first: rank 1 (local rank 1, pid 4242), exited with code 1 after 2.5 s\n"
      "ddprun: evidence: its stderr: RuntimeError: Timed out"));
  CHECK(proto::describe(*result.finished.verdict) ==
        "rank 1 exited with code 1 after 2.5 s; rank 0 probably hangs");
}

TEST_CASE("the first line names the node of a worker that still ran") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects[0].node = "node2";
  CHECK(has(said(result), "probably rank 0 (node2, local rank 0, pid 4241), which was"));
  CHECK(has(proto::describe(verdict), "; rank 0 on node2 probably hangs"));
}

TEST_CASE("of many workers that still ran the first line names a few") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects.push_back({"local", 2, {2, 4243, {}, {}}});
  CHECK(has(said(result),
            "ddprun: culprit: probably one of ranks 0, 2, which were still running when rank 1 "
            "timed out waiting\n"));
  CHECK(has(proto::describe(verdict), "; one of ranks 0, 2 probably hangs"));
  for (int rank = 3; rank < 9; ++rank)
    verdict.suspects.push_back({"local", rank, {rank, 1, {}, {}}});
  CHECK(has(said(result), "probably one of ranks 0, 2, 3, 4 and 4 more, which were"));
}

TEST_CASE("of several workers that still ran the first line names the one furthest behind") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects = {{"local", 0, {0, 4241, {{7, ""}}, {}}},
                      {"local", 2, {2, 4243, {{5, ""}}, {}}},
                      {"local", 3, {3, 4244, {{6, ""}}, {}}}};
  const std::string open = "probably one of ranks 0, 2, 3, which were still running when";
  CHECK(has(said(result),
            "ddprun: culprit: probably rank 2 (local rank 2, pid 4243), which was furthest behind "
            "of 3 that were still running when rank 1 timed out waiting\n"));
  CHECK(has(said(result), "ranks 0, 2, 3 were still running: rank 2 probably hangs ("));
  CHECK(has(proto::describe(verdict), "; rank 2 probably hangs"));
  SECTION("and shows the stacks of no other one") {
    verdict.suspects[2].worker.stacks = {"#0  poll ()"};
    CHECK_FALSE(has(said(result), "poll"));
    verdict.suspects[1].worker.stacks = {"#0  read ()"};
    CHECK(has(said(result), "read ()"));
  }
  SECTION("unless two are equally far behind") {
    verdict.suspects[2].worker.progress->step = 5;
    CHECK(has(said(result), open));
    CHECK(has(said(result), "still running: one of them probably hangs ("));
  }
  SECTION("unless a step is not known") {
    verdict.suspects[0].worker.progress.reset();
    CHECK(has(said(result), open));
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
  SECTION("as a victim") { verdict.victims = {other}; }
  SECTION("in the same way") { verdict.alike = {other}; }
  CHECK(has(said(result), "when rank 2 timed out waiting\nddprun: failed first: rank 1 "));
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
  CHECK(said(result).starts_with("ddprun: culprit: rank 1 (local rank 1, pid 4242), exited"));
  CHECK_FALSE(has(proto::describe(*result.finished.verdict), "hangs"));
}

TEST_CASE("of a Python worker under gdb the first thread is shown and the others are counted") {
  agent::AgentResult result = timed_out_waiting();
  auto& stacks = result.finished.verdict->suspects[0].worker.stacks;
  stacks = {"by gdb:", "Thread 1:", "#0  select ()", "    (3 frames of Python's interpreter)"};
  CHECK_FALSE(has(said(result), "more"));
  for (int thread = 0; thread < 20; ++thread) {
    stacks.push_back("Thread " + std::to_string(thread + 2) + ":");
    stacks.push_back("#0  epoll_wait ()");
  }
  CHECK(has(said(result),
            "    (3 frames of Python's interpreter)\n"
            "    ... and 20 more threads, which --report=FILE has\n"
            "ddprun: stopped"));
  stacks.insert(stacks.begin() + 2, 40, "#0  poll ()");
  CHECK(has(said(result), "    #0  poll ()\n    ... and 54 more lines, which --report=FILE has\n"));
}

TEST_CASE("the report of a failure has the culprit's log file") {
  agent::AgentResult result = test::failed({false, 1, false});
  CHECK_FALSE(has(said(result), "its log"));
  result.culprit.log = "/logs/run7/attempt_0/1/stderr.log";
  CHECK(has(said(result), "ddprun: its log: /logs/run7/attempt_0/1/stderr.log\n"));
  result.finished.verdict->culprit.node = "node2";
  CHECK(has(said(result), "ddprun: its log on node2: /logs/run7/attempt_0/1/stderr.log\n"));
}

TEST_CASE("a worker that had ended too early is named before the one that lost it") {
  agent::AgentResult result = test::timed_out_waiting();
  result.node_name = "host";
  auto& verdict = *result.finished.verdict;
  verdict.suspects.clear();
  verdict.ended = {{"local", 0, {0, 4241, 400ms}, ""}};
  const std::string text = test::said(result);
  CHECK(test::has(text,
                  "ddprun: culprit: probably rank 0 (local rank 0, pid 4241), which had ended with "
                  "exit code 0, 2.0 s earlier\nddprun: failed first: rank 1 "));
  CHECK(test::has(
      text, "(it lost its connection to a worker that had ended, or waited for that worker)\n"));
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  REQUIRE(json["suspects"].size() == 1);
  CHECK(json["suspects"][0]["rank"] == 0);
  CHECK(json["suspects"][0]["exit_code"] == 0);
  CHECK(json["suspects"][0]["ended_seconds"] == 0.4);
  verdict.ended.push_back({"local", 2, {2, 4243, 900ms}, ""});
  CHECK(test::has(test::said(result),
                  "ddprun: culprit: probably one of ranks 0, 2, which had ended "
                  "with exit code 0, the first 2.0 s earlier\n"));
}
