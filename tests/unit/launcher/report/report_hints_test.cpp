// Usual causes that the report names.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "base/signals.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/report/report_json.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::check_report;
using test::failed;
using test::has;
using test::said;

TEST_CASE("signals with a usual cause come with a hint") {
  for (const int signal : {SIGBUS, SIGILL, SIGKILL, SIGSEGV})
    check_report(failed({true, signal, false}), signal_name(signal));
  agent::AgentResult result = failed({true, SIGKILL, false});
  result.finished.verdict->culprit.failure.evidence.kind = proto::EvidenceKind::memory_kill;
  check_report(result, "the kernel's OOM killer");
}

TEST_CASE("a module that is missing comes with the Python that was used") {
  agent::AgentResult module = failed({false, 1, false});
  module.finished.verdict->culprit.failure.evidence.text =
      "ModuleNotFoundError: No module named 'torch'";
  const proto::ProgramFacts facts{.python = "/opt/py/bin/python3"};
  check_report(module, facts, "the only one");
  module.finished.verdict->program = facts;
  const auto json = nlohmann::json::parse(launcher::report_json(module, 1, {}));
  REQUIRE(json["hints"].size() == 1);
  CHECK(has(said(module, facts), "hint: " + json["hints"][0].get<std::string>()));
  auto elsewhere = facts;
  elsewhere.other_environment = "/home/me/env";
  check_report(module, elsewhere, "not the one of the active environment");
  elsewhere.other_environment = "/home/me/my env";
  check_report(module, elsewhere, "a name with a blank");
  elsewhere.python_is_wanted = true;
  check_report(module, elsewhere, "named by PYTHON_EXEC");
  module.finished.verdict->program.reset();
  check_report(module, "not known");
}

TEST_CASE("unexplained failures of PyTorch, CUDA and shells come with a hint") {
  agent::AgentResult result = failed({true, SIGABRT, true});
  check_report(result, "SIGABRT");
  result.finished.verdict->culprit.failure.last_lines = {
      "terminate called without an active exception"};
  check_report(result, "an end of PyTorch");
  result = failed({false, 1, false});
  result.finished.verdict->culprit.failure.evidence.text =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
  check_report(result, "a full GPU");
  for (const int code : {3, 126, 127})
    check_report(failed({false, code, false}), "exit code " + std::to_string(code));
}

TEST_CASE("a worker that cannot reach the store of its round names the port and what opens it") {
  agent::AgentResult result = failed({false, 1, false});
  result.last_round.nodes = 2;
  result.last_round.store_addr = "10.77.1.2";
  result.last_round.store_port = 39875;
  result.finished.verdict->culprit.failure.last_lines = {
      "torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while "
      "trying to connect to (10.77.1.2, 39875)."};
  check_report(result, {.chooses_store_port = true}, "a port that ddprun chose");
  check_report(result, "a port that was given");
  result.last_round.store_port = 29500;  // the program's own socket
  CHECK_FALSE(has(said(result), "hint"));
  result.last_round.store_port = 39875;
  result.last_round.nodes = 1;
  CHECK_FALSE(has(said(result), "hint"));
}

TEST_CASE("a crash of Python that left no stack names the variable that shows one") {
  proto::ProgramFacts facts{.python = "/usr/bin/python3"};
  const std::string hint =
      "hint: PYTHONFAULTHANDLER=1 ddprun ... shows the Python lines where it crashed\n";
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    CHECK(has(said(failed({true, signal, false}), facts), hint));
  for (const ExitStatus exit : {ExitStatus{true, SIGKILL, false}, ExitStatus{true, SIGTERM, false},
                                ExitStatus{false, SIGSEGV, false}})
    CHECK_FALSE(has(said(failed(exit), facts), hint));
  agent::AgentResult result = failed({true, SIGSEGV, false});
  CHECK_FALSE(has(said(result), hint));
  result.finished.verdict->culprit.failure.last_lines = {"Fatal Python error: Segmentation fault"};
  CHECK_FALSE(has(said(result, facts), hint));
  result = failed({true, SIGABRT, true});
  result.finished.verdict->culprit.failure.last_lines = {
      "terminate called without an active exception"};
  CHECK_FALSE(has(said(result, facts), hint));  // at the end of PyTorch, which has its own hint
  result = failed({true, SIGSEGV, false});
  result.finished.verdict->culprit.failure.stopped_by_us = true;
  CHECK_FALSE(has(said(result, facts), hint));
  facts.shows_crashes = true;
  CHECK_FALSE(has(said(failed({true, SIGSEGV, false}), facts), hint));
}

TEST_CASE("an exit code that stands for a signal names it, unless ddprun stopped the worker") {
  const auto hint = [](int code) { return said(failed({false, code, false})); };
  for (const int code : {137, 139, 143})
    check_report(failed({false, code, false}), std::to_string(code));
  for (const int code : {128, 155, 200, 255}) CHECK_FALSE(has(hint(code), "hint"));
  agent::AgentResult stopped = failed({false, 137, false});
  stopped.finished.verdict->culprit.failure.stopped_by_us = true;
  CHECK_FALSE(has(said(stopped), "hint"));
}

TEST_CASE("messages that went to the terminal without ddprun are pointed to") {
  agent::AgentResult result = failed({false, 1, false});
  check_report(result, "through ddprun");
  result.culprit.output_above = true;
  check_report(result, "without ddprun");
  result.finished.verdict->culprit.failure.evidence.text = "ValueError: from its error file";
  CHECK_FALSE(has(said(result), "above"));
  for (const ExitStatus exit : {ExitStatus{true, SIGKILL, false}, ExitStatus{true, SIGSEGV, false},
                                ExitStatus{false, 137, false}}) {
    result = failed(exit);
    result.culprit.output_above = true;
    CHECK_FALSE(has(said(result), "above"));
  }
}

TEST_CASE("a full disk under the log folder is named as a possible cause") {
  agent::AgentResult result = failed({false, 1, false});
  result.output.full_disk = "/logs/job_a has no space left";
  check_report(result);
}

TEST_CASE("a PyTorch without libuv and one that is too new get the option that helps") {
  agent::AgentResult result = failed({false, 1, false});
  result.finished.verdict->culprit.failure.last_lines = {
      "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without "
      "libuv support"};
  check_report(result, "without libuv");
  result = failed({false, 1, false});
  result.last_round.newer_store_clients = true;
  check_report(result, "too new");
}

TEST_CASE("an option of ddprun that stands behind the program is named, if that does not know it") {
  proto::ProgramFacts facts{.program = "train.py", .arguments = {"--nproc_per_node"}};
  agent::AgentResult result = failed({false, 2, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.last_lines = {"usage: train.py [-h]",
                        "train.py: error: unrecognized arguments: --nproc_per_node=4"};
  check_report(result, facts, "");
  SECTION("but no option of others") {
    facts.arguments = launcher::spelled_as_ours({"--lr=1", "nnodes", "-x"});
    CHECK_FALSE(has(said(result, facts), "hint"));
  }
  SECTION("nor one that the program knows") {
    culprit.last_lines = {"train.py: error: argument --nproc_per_node: invalid int value: 'x'"};
    CHECK_FALSE(has(said(result, facts), "hint"));
    facts.arguments = launcher::spelled_as_ours({"--role=x", "--output=x", "--output-fmt=y"});
    for (const char* line :
         {"unrecognized arguments: --x", "unrecognized arguments: --output-fmt=y",
          "argument --role: unknown role 'x'"}) {
      culprit.last_lines = {std::string("train.py: error: ") + line};
      CAPTURE(line);
      CHECK_FALSE(has(said(result, facts), "hint"));
    }
  }
  SECTION("and where it is not known what the program said, only if programs rarely have it") {
    culprit.last_lines.clear();
    for (const char* option : {"--nproc-per-node=2", "--nproc_per_node", "--rdzv_id"}) {
      facts.arguments = launcher::spelled_as_ours({option});
      CHECK(has(said(result, facts), "stands behind train.py"));
    }
    facts.arguments = launcher::spelled_as_ours({"--output=x", "--master_addr=a", "--seed=0"});
    CHECK_FALSE(has(said(result, facts), "hint"));
  }
  SECTION("with any other exit code it is not the cause") {
    culprit.exit.value = 1;
    CHECK_FALSE(has(said(result, facts), "hint"));
  }
}

TEST_CASE("a debugger or input() on a rank without stdin gets a hint") {
  agent::AgentResult result = failed({false, 1, false});
  auto& evidence = result.finished.verdict->culprit.failure.evidence;
  evidence = {proto::EvidenceKind::exception_line, 1s, "bdb.BdbQuit", ""};
  check_report(result, "breakpoint()");
  evidence.text = "EOFError: EOF when reading a line";
  check_report(result, "input()");
  check_report(result, {.stdin_goes_to = "all"}, "--stdin=all");
  evidence.text = "bdb.BdbQuit";
  SECTION("which local rank 0 of any node has") {
    result.finished.verdict->culprit.rank = 8;
    result.finished.verdict->culprit.failure.local_rank = 0;
    check_report(result, "local rank 0");
  }
  SECTION("which no rank has with --stdin=none") {
    result.finished.verdict->culprit.rank = result.finished.verdict->culprit.failure.local_rank = 0;
    check_report(result, {.stdin_goes_to = "none"}, "--stdin=none");
  }
}
