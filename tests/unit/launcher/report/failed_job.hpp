// The result of a job that failed, and its report.
#pragma once

#include <csignal>
#include <string>

#include "launcher/report/report.hpp"
#include "tests/support/transcript.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

inline agent::WorkerRecord ended(ExitStatus exit, bool by_us = false) {
  agent::WorkerRecord record;
  record.pid = 100;
  record.exit = exit;
  record.ran_for = 2500ms;
  record.stopped_by_us = by_us;
  return record;
}

/// Rank 1 of three failed; the others were stopped.
inline agent::AgentResult failed(ExitStatus exit) {
  agent::AgentResult result;
  result.last_round.world_size = 3;
  result.last_round.workers = {ended({true, SIGTERM, false}, true), ended(exit),
                               ended({true, SIGTERM, false}, true)};
  result.finished.outcome = proto::Finished::Outcome::failed;
  result.finished.max_restarts = 2;
  result.finished.restart_count = 2;
  proto::WorkerFailure culprit;
  culprit.local_rank = 1;
  culprit.pid = 4242;
  culprit.exit = exit;
  culprit.ran_for = 2400ms;
  culprit.ended_at = 2500ms;
  culprit.evidence.kind = proto::EvidenceKind::own_exit;
  result.finished.verdict = proto::Verdict{{"local", 1, culprit}, {}, {}, {}};
  return result;
}

/// Rank 1 of three failed because it had waited too long for rank 0, which still ran.
inline agent::AgentResult timed_out_waiting() {
  agent::AgentResult result = failed({false, 1, false});
  auto& verdict = *result.finished.verdict;
  verdict.culprit.failure.evidence = {proto::EvidenceKind::exception_line,
                                      2400ms,
                                      "RuntimeError: Timed out waiting 8000ms",
                                      "Timed out waiting",
                                      false,
                                      true};
  verdict.suspects = {{"local", 0, {0, 4241, {}, {}}}};
  return result;
}

inline std::string said(const agent::AgentResult& result) {
  return launcher::report(result, launcher::exit_code(result));
}

/// The report where the culprit's node has told how its workers were started.
inline std::string said(agent::AgentResult result, const proto::ProgramFacts& program) {
  result.finished.verdict->program = program;
  return said(result);
}

/// The report is the one of tests/transcripts/report.txt; `state` tells those of one test case
/// apart.
inline void check_report(const agent::AgentResult& result, const std::string& state = "") {
  check_transcript("report", state, said(result));
}
inline void check_report(const agent::AgentResult& result, const proto::ProgramFacts& program,
                         const std::string& state) {
  check_transcript("report", state, said(result, program));
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddprun::test
