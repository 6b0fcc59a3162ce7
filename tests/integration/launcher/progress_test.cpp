// Workers that make no progress, with real processes. Time-outs are fractions of a second; what is
// healthy is so by steps that come much faster.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/watched_job.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::all_stacks;
using test::run_watched;
using test::stand_in;

namespace {

/// Rank 1 stays in the forward pass of step 7; rank 0 waits for it, and did so first.
constexpr const char* kOneHangs =
    "case $RANK in "
    "0) exec $W progress 7 forward progress 7 all-reduce sleep 60;; "
    "1) exec $W progress 6 all-reduce sleep 0.1 progress 7 forward sleep 60;; esac";

/// A program of the lines in the documentation. It makes four steps.
std::string python_example(const test::TempDir& folder) {
  if (access("/usr/bin/python3", X_OK) != 0) test::skip("no /usr/bin/python3 here");
  std::ifstream stream(DDPRUN_SOURCE "/docs/progress.md");
  const std::string page(std::istreambuf_iterator<char>(stream), {});
  const std::string fence = "```python\n";
  const auto begin = page.find(fence) + fence.size();
  REQUIRE(begin > fence.size());
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  CHECK(std::count(example.begin(), example.end(), '\n') <= 15);  // people paste it
  const auto path = folder / "example.py";
  std::ofstream(path) << example
                      << "for step in range(4):\n    progress(step, 'forward')\n"
                         "raise SystemExit(21)\n";
  return path.string();
}

}  // namespace

TEST_CASE(
    "a worker that waits in the kernel for too long is a hang, and is restarted once it is dead") {
  const auto [job, report] = run_watched(
      {"--nproc-per-node=2", "--uninterruptible-timeout=0.4", "--grace-period=0.2",
       "--max-restarts=1"},
      "case $RANK$DDPRUN_ROUND in 10) exec $W vfork;; 00) exec $W sleep 60;; esac", "/nowhere");
  CHECK(job.status == 0);
  CHECK_THAT(job.err,
             Contains("ddprun: rank 1 hangs: its main thread waits in the kernel (state D) "
                      "for ") &&
                 Contains(" (--uninterruptible-timeout)"));
  CHECK(report["rounds"].size() == 2);
}

TEST_CASE("without the option a worker may wait in the kernel for as long as it likes") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--log-timeout=0.3"},
                  "case $RANK in 1) exec $W vfork;; *) exec $W sleep 1 exit 5;; esac", "/nowhere");
  CHECK(job.status == 5);
  CHECK_THAT(job.err, !Contains("state D"));
}

TEST_CASE("a worker that makes no progress is named with its step and phase and silence") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--progress-timeout=0.5"}, kOneHangs, "/nowhere");
  CHECK(job.status == 1);
  CHECK_THAT(job.err, Contains("ddprun: culprit: rank 1 (local rank 1, pid "));
  CHECK_THAT(job.err, Contains("ddprun: evidence: hang: rank 1: at step 7 in phase \"forward\", "
                               "silent for ") &&
                          Contains(" (--progress-timeout is "));
  CHECK_THAT(job.err, Contains("ddprun: stopped because of it: rank 0"));
  CHECK(report["culprit"]["rank"] == 1);
  CHECK(report["culprit"]["evidence"] == "hang");
  CHECK(report["culprit"]["step"] == 7);
  CHECK(report["culprit"]["phase"] == "forward");
  // Without a debugger in PATH.
  CHECK_THAT(all_stacks(report),
             Contains("from /proc") && Contains("thread ") &&
                 Contains("rank 0, silent too, at step 7 in phase \"all-reduce\""));
}

TEST_CASE("after a hang the group is started again and may succeed") {
  const auto [job, report] = run_watched(
      {"--nproc-per-node=2", "--progress-timeout=0.5", "--max-restarts=1"},
      std::string("test $DDPRUN_ROUND = 0 || exec $W progress 9 done close-page; ") + kOneHangs,
      "/nowhere");
  CHECK(job.status == 0);
  CHECK(report["outcome"] == "succeeded");
  REQUIRE(report["rounds"].size() == 2);
  CHECK_THAT(report["rounds"][0]["end"].get<std::string>(),
             Contains("rank 1 hangs: at step 7 in phase"));
}

TEST_CASE("a hang that ignores the stop signal is killed and still a hang") {
  const auto [job, report] =
      run_watched({"--progress-timeout=0.4", "--grace-period=0.2"},
                  "exec $W ignore-term progress 3 load sleep 60", "/nowhere");
  CHECK(job.status == 1);
  CHECK(report["culprit"]["evidence"] == "hang");
  CHECK(report["culprit"]["signal"] == SIGKILL);
}

TEST_CASE("the stacks of a hung worker come from gdb where it is") {
  if (access("/usr/bin/gdb", X_OK) != 0) test::skip("no gdb here");
  const auto [job, report] =
      run_watched({"--progress-timeout=0.4"}, "exec $W progress 3 load sleep 60");
  const std::string stacks = all_stacks(report);
  // A kernel may forbid tracing: then gdb reports it.
  if (stacks.find("(gdb: ") != std::string::npos) test::skip("gdb may not look: " + stacks);
  CHECK_THAT(stacks, Contains("by gdb:") && Contains("#0 ") && Contains("main ("));
  CHECK_THAT(job.err, Contains("ddprun: its stacks, by gdb:\n    Thread 1 "));
}

TEST_CASE("py-spy reads the stacks of a Python worker and its failure is reported") {
  if (access("/usr/bin/python3", X_OK) != 0) test::skip("no /usr/bin/python3 here");
  const test::TempDir folder;
  std::ofstream(folder / "hangs.py")
      << "import os, struct, time\n"
         "with open(os.environ['DDPRUN_PROGRESS_FILE'], 'wb') as page:\n"
         "    page.write(struct.pack('=6sHQQ24s16x', b'ddprun', 1, 4, 0, b'load'))\n"
         "time.sleep(60)\n";
  const std::string script = "exec /usr/bin/python3 " + (folder / "hangs.py").string();
  std::string path =
      stand_in(folder, "py-spy",
               "echo Process $3; echo 'Thread 1 (idle): \"MainThread\"'; echo '    f (t.py:3)'");
  auto found = run_watched({"--progress-timeout=0.4"}, script, path);
  CHECK_THAT(all_stacks(found.report),
             Contains("by py-spy:\nThread 1 (idle)") && Contains("f (t.py:3)"));
  CHECK(found.report["culprit"]["step"] == 4);
  path = stand_in(folder, "py-spy", "echo 'Error: Permission denied' >&2; exit 1");
  found = run_watched({"--progress-timeout=0.4"}, script, path);
  CHECK_THAT(all_stacks(found.report),
             Contains("from /proc") && Contains("(py-spy: Error: Permission denied)"));
}

TEST_CASE("a worker that moves, wrote no page, or asked not to be watched is not judged") {
  const auto [job, report] = run_watched(
      {"--nproc-per-node=3", "--progress-timeout=0.6"},
      "case $RANK in "
      "0) exec $W progress 1 a sleep 0.1 progress 1 a sleep 0.1 progress 2 a sleep 0.1 progress 3 "
      "a "
      "sleep 0.1 progress 4 a sleep 0.1 progress 5 a sleep 0.1 progress 6 a sleep 0.1 progress 7 a "
      "sleep 0.1 progress 8 a sleep 0.1 progress 9 a sleep 0.1 progress 10 a sleep 0.1;; "
      "1) exec $W sleep 1.5;; "
      "2) exec $W progress 1 a close-page sleep 1.5;; esac");
  CHECK(job.status == 0);
  CHECK(report["outcome"] == "succeeded");
  CHECK(job.err.empty());
}

TEST_CASE("a page that is garbage or cut is ignored with one warning") {
  for (const std::string page : {"page garbage", "progress 3 load page x", "page ''"}) {
    INFO(page);
    const auto [job, report] = run_watched({"--nproc-per-node=2", "--progress-timeout=0.3"},
                                           "exec $W " + page + " sleep 1.5");
    CHECK(job.status == 0);
    const auto warnings = test::sorted_lines(job.err);
    REQUIRE(warnings.size() == 1);
    if (page != "page ''") {
      CHECK_THAT(warnings[0], StartsWith("ddprun: warning: the progress page of rank ") &&
                                  Contains(" is ignored: "));
    } else {
      CHECK_THAT(warnings[0], StartsWith("ddprun: warning: --progress-timeout watches no worker "
                                         "yet: none has written a progress page"));
    }
  }
}

TEST_CASE("a folder or a pipe in place of a page is ignored too") {
  for (const std::string make : {"mkdir $DDPRUN_PROGRESS_FILE", "mkfifo $DDPRUN_PROGRESS_FILE"}) {
    INFO(make);
    const auto [job, report] = run_watched({"--progress-timeout=0.3"},
                                           "PATH=/bin:/usr/bin; " + make + "; exec $W sleep 1");
    CHECK(job.status == 0);
    CHECK_THAT(job.err, Contains("is ignored"));
  }
}

TEST_CASE("a job that is paused by Ctrl-Z does not hang") {
  test::Job job;
  auto settings = job.settings();
  test::Child child(test::Job::command({"--progress-timeout=0.5"},
                                       {"progress", "1", "a", "print", "ready", "sleep", "0.2",
                                        "progress", "2", "b", "close-page", "print", "done"}),
                    settings);
  REQUIRE(child.wait_for_output("ready"));
  kill(child.pid(), SIGTSTP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(child.pid(), SIGCONT);
  const auto result = child.wait();
  CHECK(result.status == 0);
  CHECK(result.err.empty());
}

TEST_CASE("a worker that prints nothing is named once and nothing is stopped") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--log-timeout=0.8"},
                  "test $RANK = 0 || exec $W sleep 2.4; "
                  "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo step $i; /bin/sleep 0.2; done");
  CHECK(job.status == 0);
  const auto lines = test::sorted_lines(job.err);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], StartsWith("ddprun: warning: rank 1 has printed nothing for "));
}

TEST_CASE("with --on-silence=restart a job that prints nothing is restarted") {
  const auto [job, report] = run_watched(
      {"--nproc-per-node=2", "--log-timeout=0.8", "--on-silence=restart", "--max-restarts=1"},
      "test $DDPRUN_ROUND = 0 || exit 0; test $RANK = 1 || echo first; exec $W sleep 60");
  CHECK(job.status == 0);
  CHECK_THAT(job.err, Contains("ddprun: rank 0 hung ") &&
                          Contains("restarting the workers (1 of 1 restarts)"));
}

TEST_CASE("the silence of all workers is evidence against none by its rank") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--log-timeout=0.4", "--on-silence=restart"},
                  "exec $W print started sleep 60");
  CHECK_THAT(job.err, Contains("ddprun: evidence: hang: no worker has printed anything for ") &&
                          Contains(" (--log-timeout)\n"));
  CHECK(report["culprit"]["evidence"] == "hang");
}

TEST_CASE("with --on-silence=restart one worker that prints keeps the job going") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--log-timeout=0.8", "--on-silence=restart"},
                  "test $RANK = 0 || exec $W sleep 2.4; "
                  "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo step $i; /bin/sleep 0.2; done");
  CHECK(job.status == 0);
}

TEST_CASE("a suspended worker is found as the one that hangs and ended at once") {
  // Rank 1 is furthest behind, but it is rank 0 that is suspended. A grace period that has to pass
  // would outlast the test.
  const auto [job, report] =
      run_watched({"--nproc-per-node=2", "--progress-timeout=0.5", "--grace-period=10m"},
                  "case $RANK in 0) exec $W progress 7 forward kill 19 sleep 60;; "
                  "1) exec $W progress 6 forward sleep 60;; esac");
  CHECK_THAT(job.err, Contains("ddprun: rank 0 hangs: suspended by a signal (SIGSTOP)\n"));
  CHECK(report["culprit"]["rank"] == 0);
  CHECK(report["culprit"]["evidence_text"] == "suspended by a signal (SIGSTOP)");
  CHECK(report["culprit"]["step"] == 7);
  CHECK(report["culprit"]["signal"] == 15);
}

TEST_CASE("the --log-timeout option warns once of output that it cannot see") {
  const auto [job, report] =
      run_watched({"--log-timeout=0.2", "--max-restarts=1"}, "exit $((1 - DDPRUN_ROUND))");
  CHECK(job.status == 0);
  const auto first = job.err.find("--log-timeout cannot see rank 0");
  CHECK(first != std::string::npos);
  CHECK(job.err.find("--log-timeout cannot see", first + 1) == std::string::npos);
}

TEST_CASE("rounds that fail at the same step again and again end the job") {
  const auto [job, report] = run_watched({"--max-restarts=9", "--restart-delay=0"},
                                         "$W progress $((5 - DDPRUN_ROUND)) load; exit 1");
  CHECK(job.status == 1);
  CHECK_THAT(job.err, Contains("not restarted: crash loop: no progress in 3 rounds: none got "
                               "beyond step 5; 2 of 9 restarts used)"));
  REQUIRE(report["rounds"].size() == 3);
  CHECK(report["rounds"][1]["furthest_step"] == 4);
  CHECK(report["culprit"]["step"] == 3);
}

TEST_CASE("a C program reports its progress by the header") {
  CHECK(run_watched({}, "exec " + test::helper("progress_worker") + " alone").job.status == 0);
  const auto [job, report] = run_watched({}, "exec " + test::helper("progress_worker"));
  CHECK(job.status == 20);
  CHECK(report["culprit"]["step"] == 2);
  CHECK(report["culprit"]["phase"] == "a phase of more than twe");
}

TEST_CASE("the five lines of Python in the documentation report progress") {
  const test::TempDir folder;
  const auto [job, report] =
      run_watched({"--progress-timeout=5"}, "exec /usr/bin/python3 " + python_example(folder));
  CHECK(job.status == 21);
  CHECK(report["culprit"]["step"] == 3);
  CHECK(report["culprit"]["phase"] == "forward");
}

TEST_CASE("where there is no room for a page programs run without one") {
  const test::TempDir folder;
  const std::string disk = (folder / "disk").string();
  std::filesystem::create_directory(disk);
  const std::string mount = "mount -t tmpfs -o size=16k none " + disk;
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  const auto run_full = [&](const std::string& program) {
    const std::string job =
        test::program("ddprun") + " --no-python /bin/sh -c 'exec " + program + "'";
    return test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c",
                      mount + " && { head -c 100000 /dev/zero > " + disk + "/fill; TMPDIR=" + disk +
                          " exec " + job + "; }"});
  };
  CHECK(run_full(test::helper("progress_worker") + " full").status == 0);
  CHECK(run_full("/usr/bin/python3 " + python_example(folder)).status == 21);
  // Not under ddprun.
  CHECK(test::run({"/usr/bin/python3", (folder / "example.py").string()}).status == 21);
}
