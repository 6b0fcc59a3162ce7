// One worker: it writes as if ddprun were not there, and the report still names the cause.
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/on_terminal.hpp"
#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* kNoModule =
    "echo 'Traceback (most recent call last):' >&2; echo '  File \"t.py\", line 1' >&2; "
    "echo \"ModuleNotFoundError: No module named 'nowhere'\" >&2; exit 1";

/// `ddprun OPTIONS /bin/sh -c SCRIPT` as the "$@" of another shell's command.
std::vector<std::string> in_shell(const std::string& around, const std::string& script,
                                  const std::vector<std::string>& options = {}) {
  std::vector<std::string> words{"/bin/sh", "-c", around, "sh", test::program("ddprun")};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"/bin/sh", "-c", script});
  return words;
}

}  // namespace

TEST_CASE("the report of one worker into a pipe has its evidence and a hint, and no line twice") {
  const auto result = test::run_script({}, kNoModule);
  CHECK(result.job.status == 1);
  CHECK_THAT(
      result.job.err,
      StartsWith("Traceback (most recent call last):\n  File \"t.py\", line 1\n"
                 "ModuleNotFoundError: No module named 'nowhere'\nddprun: culprit: rank 0 ") &&
          Contains("\nddprun: evidence: its stderr: ModuleNotFoundError: No module named "
                   "'nowhere'\nddprun: hint: is the module installed") &&
          !Contains("its last lines"));
  const auto json = nlohmann::json::parse(result.report);
  CHECK(json["culprit"]["evidence"] == "exception_line");
  CHECK(json["culprit"]["last_lines"].size() == 3);
}

TEST_CASE("with --output=raw one worker has our stderr, and the report points to it") {
  const auto result = test::run_script({"--output=raw"}, kNoModule);
  CHECK_THAT(result.job.err, Contains("ddprun: its stderr went directly to this terminal") &&
                                 !Contains("evidence"));
}

TEST_CASE("a part of a line of one worker goes on at once") {
  test::Job job;
  test::Child child({test::program("ddprun"), "/bin/sh", "-c",
                     "printf 'Go on? ' >&2; read answer; printf '%s\\r50%%' $answer >&2; sleep 60"},
                    job.settings("yes\n"));
  CHECK(child.wait_for(
      [](const std::string&, const std::string& err) { return err == "Go on? yes\r50%"; }));
  child.signal(SIGTERM);
  const auto result = child.wait();
  CHECK(result.status == 128 + SIGTERM);
  CHECK_THAT(result.err, StartsWith("Go on? yes\r50%\nddprun: "));
}

TEST_CASE("stdout and stderr of one worker into one pipe keep their order and every byte") {
  const std::string script =
      "i=0; while [ $i -lt 300 ]; do echo out $i; printf 'err %s\\r' $i >&2; i=$((i+1)); done; "
      "printf '\\001\\377no end'";
  test::Job job;
  const auto result = test::run(in_shell("exec \"$@\" 2>&1", script), job.settings());
  std::string expected;
  for (int i = 0; i < 300; ++i)
    expected += "out " + std::to_string(i) + "\nerr " + std::to_string(i) + "\r";
  CHECK(result.status == 0);
  CHECK(result.out == expected + "\001\377no end");
}

TEST_CASE("a slow reader of one worker gets everything, however late") {
  const std::string script =
      "i=0; while [ $i -lt 40000 ]; do echo line $i of many; i=$((i+1)); done; "
      "head -c 3000000 /dev/zero";  // more than pipes take
  test::Job job;
  const auto result =
      test::run(in_shell("\"$@\" 2>&1 | { sleep 4; cat; }", script), job.settings());
  std::string expected;
  for (int i = 0; i < 40000; ++i) expected += "line " + std::to_string(i) + " of many\n";
  CHECK(result.out == expected + std::string(3'000'000, '\0'));
}

TEST_CASE("one worker that is silent, as far as ddprun sees it, is not taken for hanging") {
  // Python would hold back what it prints.
  test::Job job;
  const auto result =
      test::run(in_shell("\"$@\" 2>&1 | cat", "echo begin; sleep 2; echo end",
                         {"--log-timeout=0.5", "--on-silence=restart", "--max-restarts=1"}),
                job.settings());
  CHECK_THAT(result.out, Contains("--log-timeout cannot see rank 0") && Contains("begin\n") &&
                             Contains("end\n") && !Contains("culprit"));
}

TEST_CASE("the last lines of one worker are repeated where its other lines may stand below them") {
  const test::TempDir folder;
  test::Job job;
  const auto result = test::run(
      in_shell("\"$@\" 2>&1 | cat",
               "echo FatalThing >&2; for i in 1 2 3 4 5 6 7 8 9; do echo out $i; done; exit 9",
               {"--tee=1", "--log-dir=" + (folder / "logs").string()}),
      job.settings());
  CHECK_THAT(result.out, Contains("out 9\n") && Contains("FatalThing\n"));
  CHECK(result.out.rfind("FatalThing") > result.out.rfind("ddprun: culprit"));
}

TEST_CASE("a signal ends the wait for a reader that has stopped") {
  // More than pipes take, less than would keep the worker.
  const std::string script = "sleep 0.5; head -c 3000000 /dev/zero | tr '\\0' x; exit 3";
  test::Job job;
  test::Child child(in_shell("exec \"$@\" 2>&1", script), job.settings());
  REQUIRE(test::eventually([&] { return test::processes_with(job.mark_entry()).size() > 2; }));
  REQUIRE(test::eventually([&] { return test::processes_with(job.mark_entry()).size() == 2; }));
  std::this_thread::sleep_for(3s);  // longer than other output is waited for
  CHECK(test::processes_with(job.mark_entry()).size() == 2);
  child.signal(SIGTERM);
  CHECK(child.wait().status == 3);
}

TEST_CASE("one worker without a reader ends as if it had written there itself") {
  const test::TempDir folder;
  const std::string status = (folder / "status").string();
  const std::string around = "{ \"$@\" 2>&1; echo $? > " + status +
                             "; } | { head -n 1; exec <&-; while [ ! -s " + status +
                             " ]; do sleep 0.05; done; }";
  test::Job job;
  const auto result =
      test::run(in_shell(around, "while echo x >&2; do :; done; exit 7"), job.settings());
  CHECK(result.out == "x\n");
  int code = 0;
  std::ifstream(status) >> code;
  CHECK((code == 128 + SIGPIPE || code == 7));  // 7: the tests were started without that signal
}

TEST_CASE("one worker on a terminal has that terminal, and the report starts without blanks") {
  const std::string mark = test::unique_mark();
  test::OnTerminal terminal({test::program("ddprun"), "/bin/sh", "-c",
                             "test -t 0 && test -t 1 && test -t 2 && echo tty; "
                             "read size; echo \"size $(stty size)\"; printf unfinished; exit 4"},
                            mark);
  terminal.resize(33, 120);
  REQUIRE(terminal.wait_for("tty"));
  terminal.type("\n");
  CHECK(terminal.wait() == 4);
  CHECK_THAT(terminal.shown,
             Contains("size 33 120") && Contains("unfinished\r\nddprun: culprit: rank 0") &&
                 Contains("ddprun: its stderr went directly to this terminal") && !Contains("   "));
}
