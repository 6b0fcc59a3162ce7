// The report of a program that does not know its arguments.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using test::check_report;
using test::failed;

TEST_CASE("a wrong command line of the program is reported in one line") {
  agent::AgentResult result = failed({false, 2, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  result.finished.max_restarts = result.finished.restart_count = 0;
  result.culprit.output_seen = true;
  culprit.last_lines = {"usage: a.py [-h]", "a.py: error: unrecognized arguments: --modle"};
  check_report(result);
  SECTION("without the program's line if that stands above") {
    result.culprit.last_lines_seen = true;
    check_report(result, "the line stands above");
  }
  SECTION("and in full if more is known") {
    culprit.last_lines.resize(5);
    check_report(result, "more lines");
    culprit.last_lines.resize(1);
    check_report(result, "one line");
    culprit.evidence.kind = proto::EvidenceKind::exception_line;
    check_report(result, "an exception");
  }
}
