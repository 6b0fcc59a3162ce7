// The exit code of a job.
#include <catch2/catch.hpp>

#include "base/exit_codes.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::failed;

TEST_CASE("a culprit that we had to stop while it failed ends the job with 1") {
  agent::AgentResult result = failed({true, SIGTERM, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.evidence = {proto::EvidenceKind::exception_line, 375ms, "ValueError: bad lr", ""};
  culprit.stopped_by_us = true;
  CHECK(launcher::exit_code(result) == 1);
  test::check_report(result);
}

TEST_CASE("a node that failed its check has an exit code of its own") {
  agent::AgentResult result;
  result.finished.outcome = proto::Finished::Outcome::failed;
  CHECK(launcher::exit_code(result) == kExitNoRound);
  result.finished.exit_code = kExitUnsound;
  CHECK(launcher::exit_code(result) == kExitUnsound);
}

TEST_CASE("a culprit that had to be stopped ends the job with the code of one that failed alike") {
  agent::AgentResult result = failed({true, SIGTERM, false});
  auto& verdict = *result.finished.verdict;
  verdict.culprit.failure.stopped_by_us = true;
  proto::FailedWorker other = verdict.culprit;
  verdict.alike = {other};
  CHECK(launcher::exit_code(result) == 1);
  other.failure.stopped_by_us = false;
  other.failure.exit = {false, 3, false};
  verdict.alike.push_back(other);
  CHECK(launcher::exit_code(result) == 3);
}

TEST_CASE("the exit code can be 1 for every failure as torchrun's") {
  CHECK(launcher::exit_code(failed({false, 3, false}), launcher::ExitCodeRule::one) == 1);
  CHECK(launcher::exit_code(agent::AgentResult(), launcher::ExitCodeRule::one) == 0);
}
