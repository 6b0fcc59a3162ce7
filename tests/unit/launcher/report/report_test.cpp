#include "launcher/report/report.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include <nlohmann/json.hpp>

#include "base/exit_codes.hpp"
#include "launcher/report/report_json.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::check_report;
using test::ended;
using test::failed;
using test::said;
using test::timed_out_waiting;
using Ending = proto::Finished::Outcome;

TEST_CASE("a success after restarts reports the lost time") {
  agent::AgentResult result;
  result.finished.restart_count = 1;
  result.job_lasted = 8s;
  result.last_round.lost_at_most = 2600ms;
  check_report(result, "one");
  result.finished.restart_count = 12;
  check_report(result, "several");
}

TEST_CASE("where workers report steps, a success after restarts tells what was lost") {
  agent::AgentResult result;
  result.finished.restart_count = 3;
  result.job_lasted = 6h + 12min;
  result.ledger.has_steps = true;
  result.ledger.steps_again = 1234;
  const auto book = [&](agent::Spent kind, std::chrono::nanoseconds spent,
                        std::chrono::nanoseconds lost) {
    result.ledger.spent[static_cast<std::size_t>(kind)] = spent;
    result.ledger.lost[static_cast<std::size_t>(kind)] = lost;
  };
  book(agent::Spent::training, 350min, 0s);
  book(agent::Spent::starting, 4min, 3min);
  book(agent::Spent::again, 6min, 6min);
  book(agent::Spent::hung, 1min, 1min);
  book(agent::Spent::waiting, 61s, 60s + 500ms);
  book(agent::Spent::stopping, 200us, 100us);
  check_report(result, "several kinds");
  result.ledger.lost = {};
  check_report(result, "nothing lost");
}

TEST_CASE("a success has no report and exit code 0") {
  agent::AgentResult result;
  CHECK(said(result).empty());
  CHECK(launcher::exit_code(result) == 0);
}

TEST_CASE("the report names the culprit, its last lines and the workers stopped because of it") {
  agent::AgentResult result = failed({false, 3, false});
  result.culprit.output_seen = true;
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.last_lines = {"Traceback:", "ValueError: bad lr"};
  culprit.evidence = {proto::EvidenceKind::exception_line, 2400ms, "ValueError: bad lr", ""};
  check_report(result, "on stderr");
  CHECK(launcher::exit_code(result) == 3);
  culprit.evidence.in_output = true;
  check_report(result, "on stdout");
}

TEST_CASE("a hang is reported with step and phase and the head of the stacks") {
  agent::AgentResult result = failed({true, SIGKILL, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.stopped_by_us = true;
  culprit.evidence = {proto::EvidenceKind::hang, 2s,
                      "at step 5 in phase \"forward\", silent for 30 s", ""};
  culprit.progress = {5, "forward"};
  culprit.stacks = {"by gdb:", "Thread 1:", "#0  poll ()"};
  check_report(result, "one worker");
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  CHECK(json["culprit"]["evidence"] == "hang");
  CHECK(json["culprit"]["step"] == 5);
  CHECK(json["culprit"]["phase"] == "forward");
  CHECK(json["culprit"]["stacks"].size() == 3);
  culprit.evidence.text = "no worker has printed anything for 1.0 s (--log-timeout)";
  culprit.evidence.all_silent = true;
  check_report(result, "all silent");
  culprit.stacks.resize(500, "#1");
  check_report(result, "a long stack");
}

TEST_CASE("what the culprit used is reported where memory may be the cause, and of a hang") {
  agent::AgentResult result = failed({true, SIGKILL, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  check_report(result, "not known");
  culprit.used = {13'314'000'000, 83s};
  check_report(result, "killed");
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  CHECK(json["culprit"]["peak_memory_bytes"] == 13'314'000'000);
  CHECK(json["culprit"]["cpu_seconds"] == 83.0);
  culprit.stopped_by_us = true;
  check_report(result, "killed by ddprun");
  culprit.evidence.kind = proto::EvidenceKind::hang;
  check_report(result, "a hang");

  result = failed({false, 1, false});
  auto& other = result.finished.verdict->culprit.failure;
  other.used = {13'314'000'000, 83s};
  check_report(result, "an exit");
  other.last_lines = {"numpy.core._exceptions.MemoryError: Unable to allocate 9 GiB"};
  check_report(result, "a MemoryError");
  // A full GPU says nothing about the memory that the kernel counts.
  other.last_lines = {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB"};
  check_report(result, "a full GPU");
}

TEST_CASE("a silent culprit is said to be silent, one that writes elsewhere is not") {
  agent::AgentResult result = failed({false, 3, false});
  check_report(result, "elsewhere");
  result.culprit.output_seen = true;
  check_report(result, "silent");
  result.finished.verdict->culprit.failure.evidence.kind = proto::EvidenceKind::fatal_signal;
  result.finished.verdict->culprit.failure.exit = {true, SIGSEGV, false};
  check_report(result, "a silent crash");
}

TEST_CASE("victims are named with the message that made them victims") {
  agent::AgentResult result = failed({true, SIGSEGV, true});
  proto::WorkerFailure victim;
  victim.local_rank = 2;
  victim.exit = {false, 9, false};
  victim.ended_at = 2500ms;
  victim.evidence = {proto::EvidenceKind::exception_line, 2s, "broken pipe", "broken pipe"};
  result.finished.verdict->culprit.failure.evidence.kind = proto::EvidenceKind::fatal_signal;
  result.finished.verdict->victims = {{"local", 2, victim}};
  check_report(result, "it exited");
  CHECK(launcher::exit_code(result) == 128 + SIGSEGV);
  auto& stopped = result.finished.verdict->victims[0].failure;
  stopped.stopped_by_us = true;
  stopped.exit = {true, SIGTERM, false};
  check_report(result, "it was stopped");
}

TEST_CASE("workers that fail alike are no victims and are counted") {
  agent::AgentResult result = failed({false, 1, false});
  auto& verdict = *result.finished.verdict;
  verdict.culprit.failure.evidence = {proto::EvidenceKind::exception_line, 2400ms,
                                      "SyntaxError: invalid syntax", ""};
  proto::FailedWorker other = verdict.culprit;
  other.rank = 2;
  other.failure.ended_at = 2400ms;
  verdict.alike = {other};
  check_report(result, "2 of 3");
  result.last_round.world_size = 2;
  check_report(result, "both");
  result.last_round.world_size = 3;
  other.rank = 0;
  verdict.alike.push_back(other);
  check_report(result, "all 3");
  verdict.culprit.failure.evidence = {proto::EvidenceKind::own_exit, 2500ms, "", ""};
  check_report(result, "all 3 exited");
  verdict.culprit.failure.exit = {true, SIGSEGV, false};
  check_report(result, "all 3 crashed");
}

TEST_CASE("a worker that others timed out waiting for is named with its stacks") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects[0].worker.stacks = {"by gdb:", "Thread 1:", "#0  read ()"};
  check_report(result, "one");
  verdict.suspects.push_back(
      {"local", 2, {2, 4243, proto::WorkerProgress{3, "load"}, {"by gdb:"}}});
  check_report(result, "the one that is furthest behind");
  verdict.suspects[1].worker.stacks = {"from /proc (no debugger could read the stacks):"};
  check_report(result, "no debugger");
  CHECK(launcher::exit_code(result) == 1);
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  CHECK(json["suspects"][0]["stacks"].size() == 3);
  CHECK(json["suspects"][1]["step"] == 3);
}

TEST_CASE("a suspended worker is named where another one is the culprit") {
  agent::AgentResult result = failed({false, 1, false});
  auto& verdict = *result.finished.verdict;
  proto::RunningWorker suspended;
  suspended.suspended = true;
  verdict.suspects = {{"local", 0, suspended}};
  check_report(result, "one");
  CHECK(nlohmann::json::parse(launcher::report_json(result, 1, {}))["suspects"][0]["suspended"] ==
        true);
  verdict.suspects.push_back({"local", 2, suspended});
  check_report(result, "two");
}

TEST_CASE("last lines that stand on the screen already are not repeated") {
  agent::AgentResult result = failed({false, 1, false});
  result.culprit.output_seen = true;
  result.finished.verdict->culprit.failure.last_lines = {"Traceback:", "ValueError: bad lr"};
  check_report(result, "in files");
  result.culprit.last_lines_seen = true;
  check_report(result, "on the screen");
}

TEST_CASE("last lines do not repeat the culprit's rank") {
  agent::AgentResult result = failed({false, 1, false});
  const int rank = result.finished.verdict->culprit.rank;
  result.finished.verdict->culprit.failure.last_lines = {
      "[rank" + std::to_string(rank) + "]: ValueError: bad lr", "[rank99]: other"};
  check_report(result);
}

TEST_CASE("the reason for no restart is reported if restarts were left") {
  agent::AgentResult result = failed({false, 127, false});
  result.finished.restart_count = 0;
  result.finished.no_restart = "exit code 127 is a program that was not found";
  check_report(result);
}

TEST_CASE("dropped bytes are reported even after a success") {
  agent::AgentResult result;
  result.output.dropped_bytes = 42;
  check_report(result, "slow");
  result.output.refusal = ENOSPC;
  check_report(result, "full");
}

TEST_CASE("the report as JSON has the documented keys") {
  agent::AgentResult result = failed({false, 3, false});
  result.node_name = "node7";
  result.job_started = std::chrono::system_clock::time_point(std::chrono::seconds(999'999'999));
  result.job_lasted = 4s;
  result.last_round.first_rank = 1;
  result.last_round.logs = {{"/logs/0/stdout.log", ""}, {"", "/logs/1/stderr.log"}};
  result.last_round.started =
      std::chrono::system_clock::time_point(std::chrono::seconds(1'000'000'000));
  result.output.dropped_bytes = 5;
  result.rounds.push_back({0, 0, result.last_round.started, 2500ms, "rank 1 exited with code 3"});
  result.rounds.back().culprit = result.finished.verdict->culprit;
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.evidence = {proto::EvidenceKind::error_file, 2400ms, "ValueError: \xff", ""};
  proto::WorkerFailure victim;
  victim.local_rank = 2;
  victim.exit = {true, SIGABRT, false};
  victim.evidence.victim_phrase = "remote process exited";
  result.finished.verdict->victims = {{"local", 2, victim}};
  const auto json = nlohmann::json::parse(
      launcher::report_json(result, 3, {"run7", {"ddprun", "a.py"}, "/home/me", "/logs"}));
  test::check_transcript("report", "", json.dump(2));
  CHECK(nlohmann::json::parse(launcher::report_json({}, 0, {}))["culprit"].is_null());
}

TEST_CASE("a job without restarts names the option for restarts") {
  agent::AgentResult result = failed({false, 1, false});
  result.finished.max_restarts = 0;
  check_report(result);
}

TEST_CASE("a cause that is never restarted has no word about restarts where none were asked for") {
  for (const int code : {113, 126, 127}) {
    agent::AgentResult result = failed({false, code, false});
    result.finished.max_restarts = 0;
    check_report(result, std::to_string(code));
  }
  agent::AgentResult result = failed({false, 126, false});
  result.finished.max_restarts = 0;
  result.finished.verdict->culprit.failure.error = "cannot execute ./a: Exec format error";
  check_report(result, "it could not be started");
}

TEST_CASE("a worker that could not be started ends with 126") {
  agent::AgentResult result = failed({false, 127, false});
  result.finished.verdict->culprit.failure.error = "cannot execute ./a: Exec format error";
  check_report(result, "its process ended");
  CHECK(launcher::exit_code(result) == 126);
  result.finished.verdict->culprit.failure.pid = 0;
  check_report(result, "it had no process");
}

TEST_CASE("a job that was stopped, or that never formed a round, reports why") {
  agent::AgentResult result;
  result.finished.outcome = Ending::cancelled;
  result.finished.signal = SIGINT;
  result.finished.reason = "stopped by SIGINT";
  check_report(result, "stopped");
  CHECK(launcher::exit_code(result) == 130);
  agent::WorkerRecord worker;
  worker.stopped_by_us = true;
  for (const ExitStatus& exit : {ExitStatus{true, SIGINT, false}, ExitStatus{false, 130, false},
                                 ExitStatus{false, 0, false}, ExitStatus{false, 1, false}}) {
    worker.exit = exit;
    result.last_round.workers.push_back(worker);
  }
  check_report(result, "workers exited");
  CHECK(nlohmann::json::parse(launcher::report_json(result, 130, {}))["exited_by_themselves"] == 2);
  result.finished.outcome = Ending::failed;
  result.finished.reason = "no store can listen";
  check_report(result, "no round");
  CHECK(launcher::exit_code(result) == kExitNoRound);
}

TEST_CASE("processes that could not be killed are an error even after a success") {
  agent::AgentResult result;
  result.leftovers = {"pid 7 (python3), state D (waits in the kernel)"};
  CHECK(launcher::exit_code(result) == kExitLeftovers);
  check_report(result);
}

TEST_CASE("an error file of any size leaves the report one screen") {
  agent::AgentResult result = failed({false, 3, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.evidence = {proto::EvidenceKind::error_file, 2400ms,
                      "a\nb\n\x1b[31mred " + std::string(1'000'000, 'x'), ""};
  for (int i = 0; i < 200; ++i)
    culprit.last_lines.push_back("line " + std::to_string(i) + " " + std::string(4000, 'l'));
  culprit.last_lines.back() = "ValueError: bad lr";
  const std::string text = said(result);
  CHECK(text.size() < 12'000);
  CHECK(std::count(text.begin(), text.end(), '\n') < 30);
  check_report(result);
  const auto json = nlohmann::json::parse(launcher::report_json(result, 3, {}));
  CHECK(json["culprit"]["evidence_text"].get<std::string>().size() > 1'000'000);
  CHECK(json["culprit"]["last_lines"].size() == 200);
}
