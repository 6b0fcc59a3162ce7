#include "launcher/report.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "launcher/exit_codes.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Ending = proto::Finished::Outcome;

namespace {

agent::WorkerRecord ended(proto::WorkerExit exit, bool by_us = false) {
  agent::WorkerRecord record;
  record.pid = 100;
  record.exit = exit;
  record.ran_for = 2500ms;
  record.stopped_by_us = by_us;
  return record;
}

/// Rank 1 of three failed; the others were stopped.
agent::AgentResult failed(proto::WorkerExit exit) {
  agent::AgentResult result;
  result.workers = {ended({true, SIGTERM, false}, true), ended(exit),
                    ended({true, SIGTERM, false}, true)};
  result.finished.outcome = Ending::failed;
  result.finished.culprit_rank = 1;
  result.finished.max_restarts = 2;
  result.finished.restart_count = 2;
  proto::WorkerFailure culprit;
  culprit.local_rank = 1;
  culprit.pid = 4242;
  culprit.exit = exit;
  culprit.ran_for = 2500ms;
  result.finished.culprit = culprit;
  return result;
}

}  // namespace

TEST_CASE("a success has no report and exit code 0") {
  agent::AgentResult result;
  CHECK(launcher::report(result).empty());
  CHECK(launcher::exit_code(result) == 0);
}

TEST_CASE("the report names the culprit, its last lines and who was stopped because of it") {
  agent::AgentResult result = failed({false, 3, false});
  result.culprit_output_seen = true;
  result.culprit_lines = {"Traceback:", "ValueError: bad lr"};
  CHECK(launcher::report(result) ==
        "ddprun: culprit: rank 1 (local rank 1, pid 4242), exited with code 3 after 2.5 s\n"
        "ddprun: the last lines of its stderr:\n"
        "    Traceback:\n"
        "    ValueError: bad lr\n"
        "ddprun: stopped because of it: ranks 0, 2\n"
        "ddprun: 2 of 2 restarts used\n"
        "ddprun: exit code 3\n");
  CHECK(launcher::exit_code(result) == 3);
}

TEST_CASE("a silent culprit is said to be silent, one whose stderr is not ours is not") {
  agent::AgentResult result = failed({false, 3, false});
  CHECK(launcher::report(result).find("stderr") == std::string::npos);
  result.culprit_output_seen = true;
  CHECK(launcher::report(result).find("it wrote nothing to stderr") != std::string::npos);
}

TEST_CASE("others that failed by themselves are named with how they ended") {
  agent::AgentResult result = failed({true, SIGSEGV, true});
  result.workers[2] = ended({false, 9, false});
  const std::string text = launcher::report(result);
  CHECK(text.find("killed by SIGSEGV (signal 11, core dumped)") != std::string::npos);
  CHECK(text.find("rank 2 exited with code 9 too, after 2.5 s") != std::string::npos);
  CHECK(text.find("stopped because of it: rank 0\n") != std::string::npos);
  CHECK(launcher::exit_code(result) == 128 + SIGSEGV);
}

TEST_CASE("a job without restarts says where to ask for them") {
  agent::AgentResult result = failed({false, 1, false});
  result.finished.max_restarts = 0;
  CHECK(launcher::report(result).find("see --max-restarts") != std::string::npos);
}

TEST_CASE("a worker that could not be started ends with 126") {
  agent::AgentResult result = failed({false, 127, false});
  result.finished.culprit->error = "cannot execute ./a: Exec format error";
  CHECK(launcher::report(result).find(
            "could not be started: cannot execute ./a: Exec format error") != std::string::npos);
  CHECK(launcher::exit_code(result) == 126);
}

TEST_CASE("a job that was stopped, or that never formed a round, says why") {
  agent::AgentResult result;
  result.finished.outcome = Ending::cancelled;
  result.finished.signal = SIGINT;
  result.finished.reason = "stopped by SIGINT";
  CHECK(launcher::report(result) == "ddprun: stopped by SIGINT\n");
  CHECK(launcher::exit_code(result) == 130);
  result.finished.outcome = Ending::failed;
  result.finished.reason = "no store can listen";
  CHECK(launcher::report(result) == "ddprun: no store can listen\n");
  CHECK(launcher::exit_code(result) == launcher::kExitNoRound);
}

TEST_CASE("processes that could not be killed are an error even after a success") {
  agent::AgentResult result;
  result.leftovers = true;
  CHECK(launcher::exit_code(result) == launcher::kExitInternal);
  CHECK_FALSE(launcher::report(result).empty());
}
