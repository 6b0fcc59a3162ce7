// The report of a program that does not know its arguments.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using test::failed;
using test::has;
using test::said;

TEST_CASE("a wrong command line of the program is reported in one line") {
  agent::AgentResult result = failed({false, 2, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  result.finished.max_restarts = result.finished.restart_count = 0;
  result.culprit.output_seen = true;
  culprit.last_lines = {"usage: a.py [-h]", "a.py: error: unrecognized arguments: --modle"};
  const std::string line =
      "ddprun: rank 1 exited with code 2 after 2.5 s, mostly wrong arguments or input";
  CHECK(said(result) == line + ": a.py: error: unrecognized arguments: --modle\n");
  SECTION("without the program's line if that stands above") {
    result.culprit.last_lines_seen = true;
    CHECK(said(result) == line + "\n");
  }
  SECTION("and in full if more is known") {
    culprit.last_lines.resize(5);
    CHECK(has(said(result), "its last lines"));
    culprit.last_lines.resize(1);
    CHECK_FALSE(has(said(result), "its last lines"));
    culprit.evidence.kind = proto::EvidenceKind::exception_line;
    CHECK(has(said(result), "ddprun: evidence: its stderr"));
  }
}
