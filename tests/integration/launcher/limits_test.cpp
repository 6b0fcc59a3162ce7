// Too few of something: open files, threads, processes. One line names what is missing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/no_threads.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;

TEST_CASE("jobs with too few open files report it, and others run") {
  for (const int files : {16, 20, 24, 30, 40, 45, 50, 64}) {
    CAPTURE(files);
    test::Job job;
    const auto result =
        test::run({"/bin/bash", "-c",
                   "ulimit -n " + std::to_string(files) + "; exec " + test::program("ddprun") +
                       " --kill-timeout=2 --nproc-per-node=3 /bin/sh -c '"
                       "setsid sleep 60 & sleep 0.1; [ $RANK = 0 ] && exit 5; exec sleep 60'"},
                  job.settings());
    CHECK_FALSE(result.timed_out);
    if (result.status == 69) {
      CHECK(result.err.find("ulimit -n") != std::string::npos);
      CHECK(files < 60);
    } else {
      CHECK(result.status == 5);
      CHECK(files > 24);
    }
    CHECK(test::processes_with(job.mark_entry()).empty());
  }
}

TEST_CASE("every worker is a better victim than the agent, however few files it may open") {
  test::Job job;
  const auto result = test::run({"/bin/bash", "-c",
                                 "ulimit -S -n 24; exec " + test::program("ddprun") +
                                     " --nproc-per-node=20 --output=raw "
                                     "/bin/cat /proc/self/oom_score_adj"},
                                job.settings());
  CHECK(result.status == 0);
  const auto lines = test::sorted_lines(result.out);
  REQUIRE(lines.size() == 20);
  CHECK(lines.front() == lines.back());
}

TEST_CASE("a job that cannot start its agent leaves no folder") {
  if (getuid() != 0) test::skip("only root can become a user without processes");
  test::TempDir directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  test::ChildOptions settings;
  settings.environment = {{"TMPDIR", directory.path().string()}, test::no_leak_check()};
  const auto result =
      test::run({"setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "prlimit",
                 "--nproc=1", test::program("ddprun"), "--no-python", "/bin/true"},
                settings);
  if (result.status == 127 || result.status == 126)
    test::skip("no setpriv or prlimit: " + result.err);
  CHECK(result.status == 70);
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a job that needs no thread runs where none can be started") {
  test::Job job;
  const auto result = test::run(test::without_threads(test::Job::command({}, {"print", "trained"})),
                                job.settings());
  if (result.status == 99) test::skip("ulimit -s is limited here: " + result.err);
  CHECK(result.status == 0);
  CHECK(result.out == "trained\n");
  CHECK(result.err.empty());
}

TEST_CASE("a job that needs a thread where none can be started ends with one line that names it") {
  test::Job job;
  std::vector<std::string> command;
  std::string what;
  SECTION("for what several workers print") {
    command = test::Job::command({"--nproc-per-node=2"}, {"print", "here", "sleep", "60"});
    what = "the workers' output cannot be read";
  }
  SECTION("for the workers' store") {
    command = {test::program("ddprun"), "--no-python", "/bin/bash", "-c",
               "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; read -ru 3 2> /dev/null; sleep 60"};
    what = "the workers have no store";
  }
  const auto result = test::run(test::without_threads(command), job.settings());
  if (result.status == 99) test::skip("ulimit -s is limited here: " + result.err);
  CAPTURE(result.err);
  CHECK(result.status == 69);
  CHECK(result.err == "ddprun: " + what +
                          ": no thread can be started: Resource temporarily unavailable; raise the "
                          "limit of processes (ulimit -u, pids.max)\n");
  CHECK(test::processes_with(job.mark_entry()).empty());
}
