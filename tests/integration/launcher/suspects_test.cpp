// Workers that others time out waiting for, and workers that a debugger looks at.
#include <csignal>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/watched_job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using test::all_stacks;
using test::run_watched;
using test::stand_in;

namespace {

/// Rank 0 times out waiting; its words are read before its end is.
const std::string kTimesOut =
    "echo 'RuntimeError: Timed out waiting 8000ms for recv' >&2; /bin/sleep 0.3; exit 3";

}  // namespace

TEST_CASE("a worker that others time out waiting for is suspected and its stacks are taken") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=3"},
                  "case $RANK in 2) exec $W sleep 60;; *) " + kTimesOut + ";; esac", "/nowhere");
  CHECK(job.status == 3);
  CHECK_THAT(job.err, Contains("timed out waiting for its peers while rank 2 still runs; "
                               "reading the stacks of rank 2 (at most 10 s)\n"));
  CHECK_THAT(job.err, Contains("ddprun: culprit: probably rank 2 (local rank 2, pid ") &&
                          Contains("), which was still running when rank ") &&
                          Contains(" timed out waiting\nddprun: failed first: rank "));
  CHECK_THAT(report["reason"].get<std::string>(), EndsWith("; rank 2 probably hangs"));
  CHECK_THAT(job.err, Contains("ddprun: rank 2 was still running: it probably hangs "
                               "(--progress-timeout would make sure)\n"
                               "ddprun: the threads of rank 2, from /proc (no debugger"));
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 2);
  CHECK(report["suspects"][0]["stacks"].dump().find("thread ") != std::string::npos);
  CHECK(report["alike"].size() == 1);
}

TEST_CASE("a worker that loses the one which timed out does not end the suspicion") {
  const auto [job, report] =
      run_watched({"--nproc-per-node=3"},
                  "case $RANK in 0) " + kTimesOut +
                      ";; 1) /bin/sleep 0.5; echo 'OSError: Connection reset by peer' >&2; "
                      "/bin/sleep 0.3; exit 4;; 2) exec $W sleep 60;; esac",
                  "/nowhere");
  CHECK(job.status == 3);
  CHECK(report["culprit"]["rank"] == 0);
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 2);
}

TEST_CASE("a suspect that ends while another one is looked at is left alone") {
  const test::TempDir folder;
  const std::string looks = (folder / "looks").string();
  const std::string pid = (folder / "pid").string();
  // Looks at rank 1 until rank 2 has been reaped.
  const std::string path =
      stand_in(folder, "gdb",
               "echo look >> " + looks + "; read two < " + pid +
                   "; while kill -0 $two 2>/dev/null; do /bin/sleep 0.02; done; echo 'Thread 1'");
  const auto [job, report] =
      run_watched({"--nproc-per-node=3"},
                  "case $RANK in 0) " + kTimesOut + ";; 1) exec $W sleep 60;; 2) echo $$ > " + pid +
                      "; while ! test -e " + looks +
                      "; do /bin/sleep 0.02; done; echo 'OSError: Connection reset by peer' >&2; "
                      "/bin/sleep 0.3; exit 4;; esac",
                  path);
  CHECK(job.status == 3);
  std::ifstream looked(looks);
  CHECK(std::string(std::istreambuf_iterator<char>(looked), {}) == "look\n");
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 1);
}

TEST_CASE("a failure of its own after a time-out ends the suspicion") {
  const test::TempDir folder;
  const std::string pid = (folder / "pid").string();
  // Rank 1 fails when rank 0 is gone.
  const auto [job, report] = run_watched(
      {"--nproc-per-node=3"},
      "case $RANK in 0) echo $$ > " + pid + "; " + kTimesOut + ";; 1) while ! test -s " + pid +
          "; do /bin/sleep 0.02; done; read zero < " + pid +
          "; while kill -0 $zero 2>/dev/null; do /bin/sleep 0.02; done; "
          "echo 'ValueError: bad lr' >&2; exit 4;; 2) exec $W sleep 60;; esac",
      "/nowhere");
  CHECK(job.status == 4);
  CHECK(report["culprit"]["rank"] == 1);
  CHECK(report["victims"][0]["rank"] == 0);
  CHECK(report["suspects"].empty());
}

TEST_CASE("the threads that are shown without a debugger are as they were before it came") {
  const test::TempDir folder;
  const std::string path = stand_in(folder, "gdb", "kill -STOP $2; echo no stack");
  const auto [job, report] =
      run_watched({"--progress-timeout=0.4"}, "exec $W progress 3 load sleep 60", path);
  CHECK_THAT(all_stacks(report), Contains("(gdb: no stack)"));
  // It sleeps, or has just woken up.
  CHECK_THAT(all_stacks(report), Contains(": S (sleeping)") || Contains(": R (running)"));
  CHECK_THAT(all_stacks(report), !Contains("T (stopped)"));
}

TEST_CASE("a failure of its own while stacks are taken ends the suspicion") {
  const test::TempDir folder;
  const std::string looking = (folder / "looking").string();
  const std::string path = stand_in(folder, "gdb", ": > " + looking + "; exec /bin/sleep 60");
  const auto [job, report] =
      run_watched({"--nproc-per-node=3"},
                  "case $RANK in 0) " + kTimesOut + ";; 1) while ! test -e " + looking +
                      "; do /bin/sleep 0.02; done; "
                      "echo 'ValueError: bad lr' >&2; exit 4;; "
                      "2) exec $W sleep 60;; esac",
                  path);
  CHECK_THAT(job.err, Contains("timed out waiting for its peers while ranks 1, 2 still run"));
  CHECK(job.status == 4);
  CHECK(report["culprit"]["rank"] == 1);
  CHECK(report["suspects"].empty());
}

TEST_CASE("a stop signal while a time-out is looked into ends the job at once") {
  const test::TempDir folder;
  const std::string path = stand_in(folder, "gdb", "kill -INT $PPID; exec /bin/sleep 60");
  const auto [job, report] =
      run_watched({"--nproc-per-node=2"}, "test $RANK = 0 || exec $W sleep 60; " + kTimesOut, path);
  CHECK(job.status == 128 + SIGINT);
  CHECK(report["outcome"] == "cancelled");
}

TEST_CASE("a job that is stopped while stacks are taken ends at once and leaves no helper") {
  const test::TempDir folder;
  const std::string path = stand_in(folder, "gdb", "kill -INT $PPID; exec /bin/sleep 60");
  // The helper's parent is the agent, which takes signals as ddprun itself does.
  const auto [job, report] =
      run_watched({"--progress-timeout=0.4"}, "exec $W progress 3 load sleep 60", path);
  CHECK(job.status == 128 + SIGINT);
  CHECK(report["outcome"] == "cancelled");
}

TEST_CASE("a worker that moves while its stacks are read is not stopped") {
  const test::TempDir folder;
  const std::string path = stand_in(folder, "gdb", "kill -USR1 $2; /bin/sleep 1; echo 'Thread 1'");
  const auto [job, report] =
      run_watched({"--progress-timeout=0.4"},
                  "trap 'exec $W progress 4 x progress 5 y close-page sleep 2' USR1; "
                  "$W progress 3 load; while :; do /bin/sleep 0.1; done",
                  path);
  CHECK(job.status == 0);
  CHECK_THAT(job.err, Contains("rank 0 makes progress again"));
}

TEST_CASE("a worker under a debugger is not judged, nor are the workers that wait for it") {
  const test::TempDir folder;
  const std::string ready = (folder / "ready").string();
  test::Job of;
  auto settings = of.settings();
  settings.environment.emplace_back("W", test::helper("job_worker"));
  // Rank 0 waits for rank 1 from when that is debugged and behind.
  test::Child job(
      {test::program("ddprun"), "--nproc-per-node=2", "--progress-timeout=0.4", "/bin/sh", "-c",
       "test $RANK = 0 || exec $W traced 600 progress 3 load print ready sleep 600; "
       "while ! test -e " +
           ready + "; do /bin/sleep 0.02; done; exec $W progress 4 wait sleep 600"},
      settings);
  if (!job.wait_for_output("ready")) {
    REQUIRE(job.wait().status == 77);
    test::skip("no process may be traced here");
  }
  std::ofstream{ready};
  const std::string notice = " debugs it, so ddprun does not stop it";
  // Twice: it is looked at again, and goes on to be left alone.
  CHECK(job.wait_for([&](const std::string&, const std::string& err) {
    const auto first = err.find(notice);
    return first != std::string::npos && err.find(notice, first + 1) != std::string::npos;
  }));
  job.signal(SIGTERM);
  const auto result = job.wait();
  CHECK(result.status == 128 + SIGTERM);
  CHECK_THAT(result.err, Contains("rank 1 hangs: at step 3 in phase \"load\""));
  CHECK(result.err.find("rank 0") == std::string::npos);
  CHECK(result.err.find("culprit") == std::string::npos);
  CHECK(test::processes_with(of.mark_entry()).empty());
}
