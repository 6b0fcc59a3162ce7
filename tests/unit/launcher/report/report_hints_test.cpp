// Usual causes that the report names.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "launcher/options/option_table.hpp"
#include "launcher/report/report_json.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::failed;
using test::has;
using test::said;

TEST_CASE("signals with a usual cause come with a hint") {
  const auto hint = [](int signal) { return said(failed({true, signal, false})); };
  CHECK(hint(SIGBUS).find("/dev/shm") != std::string::npos);
  CHECK(hint(SIGILL).find("another CPU") != std::string::npos);
  CHECK(
      hint(SIGKILL).find("SIGKILL was not sent by ddprun: it came from the kernel's OOM killer") !=
      std::string::npos);
  CHECK(hint(SIGSEGV).find("hint") == std::string::npos);
  agent::AgentResult module = failed({false, 1, false});
  module.finished.verdict->culprit.failure.evidence.text =
      "ModuleNotFoundError: No module named 'torch'";
  const proto::ProgramFacts facts{.python = "/opt/py/bin/python3"};
  CHECK(has(said(module, facts),
            "hint: the workers ran under /opt/py/bin/python3: is the module installed there?"));
  module.finished.verdict->program = facts;
  const auto json = nlohmann::json::parse(launcher::report_json(module, 1, {}));
  REQUIRE(json["hints"].size() == 1);
  CHECK(has(json["hints"][0], "the workers ran under /opt/py/bin/python3: is the module"));
  auto elsewhere = facts;
  elsewhere.other_environment = "/home/me/env";
  CHECK(has(said(module, elsewhere),
            "hint: the workers ran under /opt/py/bin/python3, not under the active environment "
            "/home/me/env: type PYTHON_EXEC=/home/me/env/bin/python ddprun"));
  elsewhere.other_environment = "/home/me/my env";
  CHECK(has(said(module, elsewhere), "type PYTHON_EXEC='/home/me/my env/bin/python' ddprun"));
  elsewhere.python_is_wanted = true;
  CHECK(has(said(module, elsewhere), "because PYTHON_EXEC names it, not under the active"));
  CHECK(has(said(module, elsewhere), "or type PYTHON_EXEC='/home/me/my env/bin/python' ddprun"));
  module.finished.verdict->program.reset();
  CHECK(has(said(module), "is the module installed for this Python? PROGRAM, or its"));
  agent::AgentResult result = failed({true, SIGKILL, false});
  result.finished.verdict->culprit.failure.evidence.kind = proto::EvidenceKind::memory_kill;
  CHECK(said(result).find("the kernel killed it because memory was full") != std::string::npos);
  CHECK(said(result).find("not sent by ddprun") == std::string::npos);
}

TEST_CASE("unexplained failures of PyTorch, CUDA and shells come with a hint") {
  agent::AgentResult result = failed({true, SIGABRT, true});
  CHECK_FALSE(has(said(result), "hint"));
  result.finished.verdict->culprit.failure.last_lines = {
      "terminate called without an active exception"};
  CHECK(has(said(result), "call torch.distributed.destroy_process_group() at the end"));
  result = failed({false, 1, false});
  result.finished.verdict->culprit.failure.evidence.text =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
  CHECK(has(said(result), "hint: the GPU's memory was full"));
  CHECK(has(said(failed({false, 126, false})), "hint: exit code 126 mostly means"));
  CHECK(has(said(failed({false, 127, false})), "hint: exit code 127 mostly means"));
  CHECK_FALSE(has(said(failed({false, 3, false})), "hint"));
}

TEST_CASE("a worker that cannot reach the store of its round names the port and what opens it") {
  agent::AgentResult result = failed({false, 1, false});
  result.last_round.nodes = 2;
  result.last_round.store_addr = "10.77.1.2";
  result.last_round.store_port = 39875;
  result.finished.verdict->culprit.failure.last_lines = {
      "torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while "
      "trying to connect to (10.77.1.2, 39875)."};
  const std::string hint =
      "hint: its node cannot reach the workers' store at 10.77.1.2:39875: open that port between "
      "the nodes";
  CHECK(has(said(result, {.chooses_store_port = true}),
            hint + ", or let ddprun choose one that is open, with --port-range=FIRST:LAST\n"));
  CHECK(has(said(result), hint + "\n"));
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
  CHECK(has(hint(137),
            "hint: exit code 137 is 128 + 9: mostly a program that the worker started "
            "was killed by SIGKILL, from the kernel's OOM killer"));
  CHECK(has(hint(139),
            "exit code 139 is 128 + 11: mostly a program that the worker started crashed "
            "with SIGSEGV\n"));
  CHECK(has(hint(143), "was ended by SIGTERM\n"));
  for (const int code : {128, 155, 200, 255}) CHECK_FALSE(has(hint(code), "hint"));
  agent::AgentResult stopped = failed({false, 137, false});
  stopped.finished.verdict->culprit.failure.stopped_by_us = true;
  CHECK_FALSE(has(said(stopped), "hint"));
}

TEST_CASE("messages that went to the terminal without ddprun are pointed to") {
  agent::AgentResult result = failed({false, 1, false});
  CHECK_FALSE(has(said(result), "above"));
  result.culprit.output_above = true;
  CHECK(has(said(result), "ddprun: its stderr went directly to this terminal"));
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
  CHECK(has(said(result), "ddprun: hint: /logs/job_a has no space left: that may be the cause\n"));
}

TEST_CASE("a PyTorch without libuv and one that is too new get the option that helps") {
  agent::AgentResult result = failed({false, 1, false});
  result.finished.verdict->culprit.failure.last_lines = {
      "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without "
      "libuv support"};
  CHECK(said(result).find("set USE_LIBUV=0 and use --worker-store=rank0") != std::string::npos);
  result = failed({false, 1, false});
  result.last_round.newer_store_clients = true;
  CHECK(said(result).find("newer than this ddprun: --worker-store=rank0") != std::string::npos);
}

TEST_CASE("an option of ddprun that stands behind the program is named, if that does not know it") {
  proto::ProgramFacts facts{.program = "train.py", .arguments = {"--nproc_per_node"}};
  agent::AgentResult result = failed({false, 2, false});
  auto& culprit = result.finished.verdict->culprit.failure;
  culprit.last_lines = {"usage: train.py [-h]",
                        "train.py: error: unrecognized arguments: --nproc_per_node=4"};
  const std::string hint =
      "hint: --nproc_per_node stands behind train.py, so ddprun passed it to train.py; options of "
      "ddprun stand before the program\n";
  CHECK(has(said(result, facts), hint));
  CHECK(has(said(result, facts), "unrecognized arguments: --nproc_per_node=4"));
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
  CHECK(has(said(result),
            "hint: rank 1 has no stdin, so breakpoint() ends there at once: stop only local rank 0 "
            "(if LOCAL_RANK is 0), or type --stdin=all\n"));
  evidence.text = "EOFError: EOF when reading a line";
  CHECK(has(said(result), "hint: rank 1 has no stdin, so input() or breakpoint() ends there"));
  CHECK(has(said(result, {.stdin_goes_to = "all"}),
            "hint: rank 1 read its stdin, which had ended\n"));
  evidence.text = "bdb.BdbQuit";
  SECTION("which local rank 0 of any node has") {
    result.finished.verdict->culprit.rank = 8;
    result.finished.verdict->culprit.failure.local_rank = 0;
    CHECK(has(said(result),
              "hint: rank 8 was left in its debugger: by q, or because its stdin had ended\n"));
  }
  SECTION("which no rank has with --stdin=none") {
    result.finished.verdict->culprit.rank = result.finished.verdict->culprit.failure.local_rank = 0;
    CHECK(has(said(result, {.stdin_goes_to = "none"}),
              "hint: rank 0 has no stdin because of --stdin=none, so breakpoint() ends there at "
              "once: leave that option out and stop only local rank 0, or type --stdin=all\n"));
  }
}
