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
using test::ended;
using test::failed;
using test::has;
using test::said;
using test::timed_out_waiting;
using Ending = proto::Finished::Outcome;

TEST_CASE("a success after restarts reports the lost time") {
  agent::AgentResult result;
  result.finished.restart_count = 1;
  result.job_lasted = 8s;
  result.last_round.began_after = 2600ms;
  CHECK(said(result) == "ddprun: done in 8.0 s, 1 restart, at most 2.6 s lost\n");
  result.finished.restart_count = 12;
  CHECK(has(said(result), ", 12 restarts, "));
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
  CHECK(said(result) ==
        "ddprun: culprit: rank 1 (local rank 1, pid 4242), exited with code 3 after 2.5 s\n"
        "ddprun: evidence: its stderr: ValueError: bad lr\n"
        "ddprun: its last lines:\n"
        "    Traceback:\n"
        "    ValueError: bad lr\n"
        "ddprun: stopped because of it: ranks 0, 2\n"
        "ddprun: exit code 3 (2 of 2 restarts used)\n");
  CHECK(launcher::exit_code(result) == 3);
  culprit.evidence.in_output = true;
  CHECK(has(said(result), "ddprun: evidence: its output: ValueError: bad lr\n"));
}

TEST_CASE("a hang is reported with step and phase and the head of the stacks") {
  agent::AgentResult result = failed({true, SIGKILL, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.stopped_by_us = true;
  culprit.evidence = {proto::EvidenceKind::hang, 2s,
                      "at step 5 in phase \"forward\", silent for 30 s", ""};
  culprit.progress = {5, "forward"};
  culprit.stacks = {"by gdb:", "Thread 1:", "#0  poll ()"};
  CHECK(said(result) ==
        "ddprun: culprit: rank 1 (local rank 1, pid 4242), hung 2.0 s after the start of the round "
        "and "
        "was stopped "
        "(killed by SIGKILL (signal 9))\n"
        "ddprun: evidence: hang: rank 1: at step 5 in phase \"forward\", silent for 30 s\n"
        "ddprun: its stacks, by gdb:\n"
        "    Thread 1:\n"
        "    #0  poll ()\n"
        "ddprun: stopped because of it: ranks 0, 2\n"
        "ddprun: exit code 1 (2 of 2 restarts used)\n");
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  CHECK(json["culprit"]["evidence"] == "hang");
  CHECK(json["culprit"]["step"] == 5);
  CHECK(json["culprit"]["phase"] == "forward");
  CHECK(json["culprit"]["stacks"].size() == 3);
  culprit.evidence.text = "no worker has printed anything for 1.0 s (--log-timeout)";
  culprit.evidence.all_silent = true;
  CHECK(has(said(result),
            "ddprun: evidence: hang: no worker has printed anything for 1.0 s (--log-timeout)\n"));
  culprit.stacks.resize(500, "#1");
  CHECK(said(result).find("... and 470 more lines, which --report=FILE has") != std::string::npos);
}

TEST_CASE("what the culprit used is reported where memory may be the cause, and of a hang") {
  agent::AgentResult result = failed({true, SIGKILL, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  const std::string line = "ddprun: its peak memory: 12.4 GiB; its CPU time: 1 min 23 s\n";
  CHECK_FALSE(has(said(result), "peak memory"));  // not known
  culprit.used = {13'314'000'000, 83s};
  CHECK(has(said(result), line));
  const auto json = nlohmann::json::parse(launcher::report_json(result, 1, {}));
  CHECK(json["culprit"]["peak_memory_bytes"] == 13'314'000'000);
  CHECK(json["culprit"]["cpu_seconds"] == 83.0);
  culprit.stopped_by_us = true;  // the signal was ours
  CHECK_FALSE(has(said(result), "peak memory"));
  culprit.evidence.kind = proto::EvidenceKind::hang;
  CHECK(has(said(result), line));

  result = failed({false, 1, false});
  auto& other = result.finished.verdict->culprit.failure;
  other.used = {13'314'000'000, 83s};
  CHECK_FALSE(has(said(result), "peak memory"));
  other.last_lines = {"numpy.core._exceptions.MemoryError: Unable to allocate 9 GiB"};
  CHECK(has(said(result), line));
  // A full GPU says nothing about the memory that the kernel counts.
  other.last_lines = {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB"};
  CHECK_FALSE(has(said(result), "peak memory"));
}

TEST_CASE("a silent culprit is said to be silent, one that writes elsewhere is not") {
  agent::AgentResult result = failed({false, 3, false});
  CHECK(said(result).find("stderr") == std::string::npos);
  result.culprit.output_seen = true;
  CHECK(said(result).find("it wrote nothing to stderr") != std::string::npos);
  result.finished.verdict->culprit.failure.evidence.kind = proto::EvidenceKind::fatal_signal;
  result.finished.verdict->culprit.failure.exit = {true, SIGSEGV, false};
  CHECK(has(said(result),
            "evidence: SIGSEGV: the program crashed and wrote nothing to stderr\nddprun: stopped"));
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
  const std::string text = said(result);
  CHECK(text.find("killed by SIGSEGV (signal 11, core dumped)") != std::string::npos);
  CHECK(text.find("evidence: SIGSEGV: the program crashed\n") != std::string::npos);
  CHECK(text.find("victim: rank 2, exited with code 9 after 2.5 s: broken pipe\n") !=
        std::string::npos);
  CHECK(text.find("stopped because of it: rank 0\n") != std::string::npos);
  CHECK(launcher::exit_code(result) == 128 + SIGSEGV);
  auto& stopped = result.finished.verdict->victims[0].failure;
  stopped.stopped_by_us = true;
  stopped.exit = {true, SIGTERM, false};
  CHECK(has(said(result), "ddprun: victim: rank 2: broken pipe, after 2.0 s; then stopped\n"));
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
  CHECK(has(said(result),
            "ddprun: 2 of 3 workers failed the same way (ranks 1, 2); first: rank 1\n"
            "ddprun: stopped because of it: rank 0\n"));
  CHECK(has(said(result), "evidence: its stderr, after 2.4 s: SyntaxError"));
  CHECK_FALSE(has(said(result), "victim"));
  result.last_round.world_size = 2;
  CHECK(has(said(result), "ddprun: both workers failed the same way; first: rank 1\n"));
  result.last_round.world_size = 3;
  other.rank = 0;
  verdict.alike.push_back(other);
  CHECK(has(said(result),
            "ddprun: all 3 workers failed the same way; first: rank 1\n"
            "ddprun: exit code 1"));
  verdict.culprit.failure.evidence = {proto::EvidenceKind::own_exit, 2500ms, "", ""};
  CHECK(has(said(result), "ddprun: all 3 workers exited with code 1; first: rank 1\n"));
  verdict.culprit.failure.exit = {true, SIGSEGV, false};
  CHECK(has(said(result), "all 3 workers were killed by SIGSEGV (signal 11); first: rank 1\n"));
}

TEST_CASE("a worker that others timed out waiting for is named with its stacks") {
  agent::AgentResult result = timed_out_waiting();
  auto& verdict = *result.finished.verdict;
  verdict.suspects[0].worker.stacks = {"by gdb:", "Thread 1:", "#0  read ()"};
  CHECK(has(said(result),
            "Timed out waiting 8000ms (it timed out waiting for another worker)\n"
            "ddprun: rank 0 was still running: it probably hangs (--progress-timeout would make "
            "sure)\n"
            "ddprun: the stacks of rank 0, by gdb:\n"
            "    Thread 1:\n"
            "    #0  read ()\n"
            "ddprun: stopped because of it: rank 2\n"));
  verdict.suspects.push_back(
      {"local", 2, {2, 4243, proto::WorkerProgress{3, "load"}, {"by gdb:"}}});
  CHECK(has(said(result), "ddprun: ranks 0, 2 were still running: one of them probably hangs"));
  CHECK(has(said(result), "ddprun: the stacks of rank 2, by gdb:"));  // furthest behind
  verdict.suspects[1].worker.stacks = {"from /proc (no debugger could read the stacks):"};
  CHECK(has(said(result), "ddprun: the threads of rank 2, from /proc (no debugger could read"));
  CHECK_FALSE(has(said(result), "stopped because of it"));
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
  CHECK(has(said(result),
            "ddprun: rank 0 was suspended by a signal (SIGSTOP) when the round was stopped\n"
            "ddprun: stopped because of it: rank 2\n"));
  CHECK(nlohmann::json::parse(launcher::report_json(result, 1, {}))["suspects"][0]["suspended"] ==
        true);
  verdict.suspects.push_back({"local", 2, suspended});
  CHECK(has(said(result), "ddprun: ranks 0, 2 were suspended by a signal (SIGSTOP) when"));
}

TEST_CASE("last lines that stand on the screen already are not repeated") {
  agent::AgentResult result = failed({false, 1, false});
  result.culprit.output_seen = true;
  result.finished.verdict->culprit.failure.last_lines = {"Traceback:", "ValueError: bad lr"};
  CHECK(has(said(result), "its last lines"));
  result.culprit.last_lines_seen = true;
  CHECK_FALSE(has(said(result), "its last lines"));
  CHECK_FALSE(has(said(result), "wrote nothing"));
}

TEST_CASE("last lines do not repeat the culprit's rank") {
  agent::AgentResult result = failed({false, 1, false});
  const int rank = result.finished.verdict->culprit.rank;
  result.finished.verdict->culprit.failure.last_lines = {
      "[rank" + std::to_string(rank) + "]: ValueError: bad lr", "[rank99]: other"};
  CHECK(has(said(result), "\n    ValueError: bad lr\n    [rank99]: other\n"));
}

TEST_CASE("the reason for no restart is reported if restarts were left") {
  agent::AgentResult result = failed({false, 127, false});
  result.finished.restart_count = 0;
  result.finished.no_restart = "exit code 127 is a program that was not found";
  CHECK(has(said(result),
            "ddprun: exit code 127 (not restarted: exit code 127 is a program that "
            "was not found; 0 of 2 restarts used)\n"));
}

TEST_CASE("dropped bytes are reported even after a success") {
  agent::AgentResult result;
  result.output.dropped_bytes = 42;
  CHECK(said(result) ==
        "ddprun: dropped 42 bytes of the workers' output: a reader or a disk was too slow (see "
        "--log-policy)\n");
  result.output.refusal = ENOSPC;
  CHECK(said(result) ==
        "ddprun: dropped 42 bytes of the workers' output: stdout or stderr cannot be written: No "
        "space left on device\n");
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
  CHECK(json["outcome"] == "failed");
  CHECK(json["exit_code"] == 3);
  CHECK(json["run_id"] == "run7");
  CHECK(json["command"] == nlohmann::json{"ddprun", "a.py"});
  CHECK(json["cwd"] == "/home/me");
  CHECK(json["host"] == "node7");
  CHECK(json["world_size"] == 3);
  CHECK(json["started"] == "2001-09-09T01:46:39.000Z");
  CHECK(json["ended"] == "2001-09-09T01:46:43.000Z");
  CHECK(json["log_folder"] == "/logs");
  CHECK(json["logs"][0] == nlohmann::json{{"rank", 1}, {"stdout", "/logs/0/stdout.log"}});
  CHECK(json["logs"][1] == nlohmann::json{{"rank", 2}, {"stderr", "/logs/1/stderr.log"}});
  CHECK(json["culprit"]["ended_seconds"] == 2.5);
  CHECK(json["rounds"][0]["culprit"]["rank"] == 1);
  CHECK(json["rounds"][0]["culprit"]["host"] == json["host"]);
  CHECK(json["rounds"][0]["culprit"]["evidence"] == "own_exit");
  CHECK(json["culprit"]["rank"] == 1);
  CHECK(json["culprit"]["local_rank"] == 1);
  CHECK(json["culprit"]["host"] == "node7");
  CHECK(json["culprit"]["pid"] == 4242);
  CHECK(json["culprit"]["exit_code"] == 3);
  CHECK(json["culprit"]["evidence"] == "error_file");
  CHECK(json["culprit"]["started"] == "2001-09-09T01:46:40.000Z");
  CHECK(json["victims"][0]["signal"] == SIGABRT);
  CHECK(json["victims"][0]["victim_phrase"] == "remote process exited");
  CHECK(json["rounds"][0]["end"] == "rank 1 exited with code 3");
  CHECK(json["dropped_bytes"] == 5);
  CHECK(nlohmann::json::parse(launcher::report_json({}, 0, {}))["culprit"].is_null());
}

TEST_CASE("a job without restarts names the option for restarts") {
  agent::AgentResult result = failed({false, 1, false});
  result.finished.max_restarts = 0;
  CHECK(has(said(result), "ddprun: exit code 1 (not restarted: --max-restarts=0)\n"));
}

TEST_CASE("a cause that is never restarted has no word about restarts where none were asked for") {
  for (const int code : {113, 126, 127}) {
    agent::AgentResult result = failed({false, code, false});
    result.finished.max_restarts = 0;
    CHECK(has(said(result), "ddprun: exit code " + std::to_string(code) + "\n"));
  }
  agent::AgentResult result = failed({false, 126, false});
  result.finished.max_restarts = 0;
  result.finished.verdict->culprit.failure.error = "cannot execute ./a: Exec format error";
  CHECK(has(said(result), "ddprun: exit code 126\n"));
}

TEST_CASE("a worker that could not be started ends with 126") {
  agent::AgentResult result = failed({false, 127, false});
  result.finished.verdict->culprit.failure.error = "cannot execute ./a: Exec format error";
  CHECK(said(result).find("could not be started: cannot execute ./a: Exec format error") !=
        std::string::npos);
  CHECK(launcher::exit_code(result) == 126);
  CHECK_FALSE(has(said(result), "hint"));
  result.finished.verdict->culprit.failure.pid = 0;
  CHECK(has(said(result), "culprit: rank 1 (local rank 1), could not be started"));
}

TEST_CASE("a job that was stopped, or that never formed a round, reports why") {
  agent::AgentResult result;
  result.finished.outcome = Ending::cancelled;
  result.finished.signal = SIGINT;
  result.finished.reason = "stopped by SIGINT";
  CHECK(said(result) == "ddprun: stopped by SIGINT\n");
  CHECK(launcher::exit_code(result) == 130);
  agent::WorkerRecord worker;
  worker.stopped_by_us = true;
  for (const ExitStatus& exit : {ExitStatus{true, SIGINT, false}, ExitStatus{false, 130, false},
                                 ExitStatus{false, 0, false}, ExitStatus{false, 1, false}}) {
    worker.exit = exit;
    result.last_round.workers.push_back(worker);
  }
  CHECK(said(result) == "ddprun: stopped by SIGINT; workers that exited by themselves: 2 of 4\n");
  CHECK(nlohmann::json::parse(launcher::report_json(result, 130, {}))["exited_by_themselves"] == 2);
  result.finished.outcome = Ending::failed;
  result.finished.reason = "no store can listen";
  CHECK(said(result) == "ddprun: no store can listen\n");
  CHECK(launcher::exit_code(result) == kExitNoRound);
}

TEST_CASE("processes that could not be killed are an error even after a success") {
  agent::AgentResult result;
  result.leftovers = {"pid 7 (python3), state D (waits in the kernel)"};
  CHECK(launcher::exit_code(result) == kExitLeftovers);
  CHECK(said(result) ==
        "ddprun: could not be killed: pid 7 (python3), state D (waits in the kernel)\n");
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
  CHECK(text.find("ddprun: evidence: its error file: a b red xxx") != std::string::npos);
  CHECK(text.find("ddprun: its last lines:\n"
                  "    ... 180 lines before, which --report=FILE has\n"
                  "    line 180 lll") != std::string::npos);
  CHECK(text.find("    ValueError: bad lr\n") != std::string::npos);
  const auto json = nlohmann::json::parse(launcher::report_json(result, 3, {}));
  CHECK(json["culprit"]["evidence_text"].get<std::string>().size() > 1'000'000);
  CHECK(json["culprit"]["last_lines"].size() == 200);
}
