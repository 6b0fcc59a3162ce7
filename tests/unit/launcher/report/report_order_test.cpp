// The report of a job in which several workers, or several rounds, failed.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::check_report;
using test::failed;
using test::has;
using test::said;

TEST_CASE("no victim has failed before its culprit") {
  agent::AgentResult result = failed({false, 1, false});
  auto& verdict = *result.finished.verdict;
  auto& culprit = verdict.culprit.failure;
  culprit.ended_at = 162ms;
  culprit.evidence = {proto::EvidenceKind::exception_line, 150ms, "RuntimeError: boom", ""};
  proto::WorkerFailure other;
  other.exit = {true, SIGTERM, false};
  other.stopped_by_us = true;
  other.evidence = {proto::EvidenceKind::exception_line, 154ms, "", ""};
  verdict.victims = {{"local", 0, other}};
  check_report(result, "before the culprit had ended");
  verdict.victims[0].failure.evidence.at = 170ms;
  check_report(result, "after it");
}

TEST_CASE("a job that failed in the same way in all rounds is told so") {
  agent::AgentResult result = failed({false, 1, false});
  proto::FailedWorker culprit = result.finished.verdict->culprit;
  culprit.failure.evidence = {proto::EvidenceKind::exception_line, 1s, "ValueError: step 7", ""};
  for (int number = 0; number < 4; ++number) {
    agent::RoundSummary round;
    round.culprit = culprit;
    round.culprit->rank = number;
    result.rounds.push_back(round);
  }
  check_report(result, "4 rounds");
  auto& first = result.rounds.front();
  first.culprit->failure.evidence.text = "ValueError: step 8";
  check_report(result, "numbers differ");
  first.culprit->failure.evidence.text = "KeyError: 'x'";
  CHECK_FALSE(has(said(result), "the same error"));
  first.culprit.reset();  // a node was lost
  CHECK_FALSE(has(said(result), "the same error"));
  result.rounds = {result.rounds[1], result.rounds[2]};
  check_report(result, "2 rounds");
  for (auto& round : result.rounds) {
    round.culprit->failure.exit = {true, SIGKILL, false};
    round.culprit->failure.evidence = {proto::EvidenceKind::own_exit, 1s, "", ""};
  }
  CHECK_FALSE(has(said(result), "the same error"));
}
