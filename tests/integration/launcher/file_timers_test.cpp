// torch's file timers (torch.distributed.elastic.timer), written as its client writes them.
#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/unique_handle.hpp"
#include "tests/support/job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

struct TimedJob {
  test::ChildResult job;
  nlohmann::json report;
};

/// Runs `script` in a shell as both workers, with torch's timers. `timer PID SECONDS` in it
/// acquires one, and `release PID` ends it.
TimedJob run_with_timers(const std::vector<std::string>& options, const std::string& script,
                         const std::string& timer_file = "") {
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  std::vector<std::string> words{test::program("ddprun"), "--nproc-per-node=2",
                                 "--report=" + report};
  words.insert(words.end(), options.begin(), options.end());
  const std::string functions =
      "line() { printf '{\"version\": 1, \"pid\": %d, \"scope_id\": \"step\", "
      "\"expiration_time\": %d, \"signal\": %d}\\n' $1 $2 $3 > $TORCHELASTIC_TIMER_FILE; }; "
      "timer() { line $1 $(($(date +%s) + $2)) 9; }; release() { line $1 -1 0; }; ";
  words.insert(words.end(), {"/bin/sh", "-c", functions + script});
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("TORCHELASTIC_ENABLE_FILE_TIMER", "1");
  if (!timer_file.empty()) settings.environment.emplace_back("TORCHELASTIC_TIMER_FILE", timer_file);
  TimedJob ran{test::run(words, settings), {}};
  CHECK(test::processes_with(job.mark_entry()).empty());
  std::ifstream stream(report);
  ran.report = nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(stream), {}));
  return ran;
}

}  // namespace

TEST_CASE("an expired timer ends its worker and the verdict names the scope") {
  // A grace period that has to pass would outlast the test.
  const auto [job, report] = run_with_timers(
      {"--grace-period=10m"},
      "test $RANK = 0 || { trap '' TERM; timer $$ 1; }; while :; do /bin/sleep 0.1; done");
  CHECK(job.status == 1);
  CHECK_THAT(job.err,
             Contains("ddprun: rank 1: timer 'step' expired after ") && Contains(": SIGKILL\n"));
  CHECK_THAT(job.err, Contains("ddprun: evidence: hang: rank 1: timer 'step' expired after "));
  CHECK(report["culprit"]["rank"] == 1);
  CHECK(report["culprit"]["evidence"] == "hang");
  CHECK_THAT(report["culprit"]["evidence_text"].get<std::string>(),
             Contains("timer 'step' expired after "));
  CHECK(report["culprit"]["signal"] == 9);
  CHECK_THAT(job.err, !Contains("not sent by ddprun"));
}

TEST_CASE("a timer that is released, or ends with its process, changes nothing") {
  const auto [job, report] =
      run_with_timers({}, "timer $$ 2; test $RANK = 1 && exit 0; release $$; /bin/sleep 3; exit 0");
  CHECK(job.status == 0);
  CHECK(job.err.empty());
}

TEST_CASE("garbage in the timer file is one warning, and other processes are left alone") {
  const auto [job, report] =
      run_with_timers({},
                      "test $RANK = 0 || exit 0; echo garbage > $TORCHELASTIC_TIMER_FILE; "
                      "echo '{}' > $TORCHELASTIC_TIMER_FILE; timer 1 0; /bin/sleep 1");
  CHECK(job.status == 0);
  const auto lines = test::sorted_lines(job.err);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "ddprun: warning: TORCHELASTIC_TIMER_FILE: skipped a line that is not a timer of torch");
  CHECK(lines[1] == "ddprun: warning: timer 'step' is ignored: pid 1 is no process of this job");
}

TEST_CASE("a given timer file is a pipe while the job runs, and no other file is replaced") {
  const test::TempDir folder;
  const std::string pipe = (folder / "timers").string();
  CHECK(run_with_timers({}, "test -p " + pipe, pipe).job.status == 0);
  CHECK_FALSE(std::filesystem::exists(pipe));
  std::ofstream(pipe) << "precious";
  const auto [job, report] = run_with_timers({}, "exit 0", pipe);
  CHECK(job.status == 0);
  CHECK_THAT(job.err, Contains("it exists and is no named pipe"));
  CHECK(std::filesystem::file_size(pipe) == 8);
}

TEST_CASE("a given timer file that another job reads is left to that job") {
  const test::TempDir folder;
  const std::string pipe = (folder / "timers").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  SECTION("while it is read") {
    const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(reader);
    struct stat before {};
    REQUIRE(stat(pipe.c_str(), &before) == 0);
    const auto [job, report] = run_with_timers({}, "exit 0", pipe);
    CHECK(job.status == 0);
    CHECK_THAT(job.err,
               Contains("TORCHELASTIC_TIMER_FILE=" + pipe + ": another process reads this pipe") &&
                   Contains("; timers of workers are not watched\n"));
    struct stat after {};
    REQUIRE(stat(pipe.c_str(), &after) == 0);
    CHECK(after.st_ino == before.st_ino);
  }
  SECTION("and made anew after its end") {
    const auto [job, report] = run_with_timers({}, "exit 0", pipe);
    CHECK(job.err.empty());
    CHECK_FALSE(std::filesystem::exists(pipe));
  }
}

TEST_CASE("without the switch no timer file is made") {
  test::Job job;
  CHECK(
      test::run({test::program("ddprun"), "/bin/sh", "-c", "test -z \"$TORCHELASTIC_TIMER_FILE\""},
                job.settings())
          .status == 0);
}
