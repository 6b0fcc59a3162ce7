// Commands of the user beside a job: --on-event and --on-notice.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/launcher/named_job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::NamedJob;

namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Writes what it is told, a line for each event.
std::string note_in(const std::string& path) {
  return "echo \"$DDPRUN_EVENT $TORCHELASTIC_RUN_ID $(cat)\" >>" + path;
}

}  // namespace

TEST_CASE("a command is run for each event in turn, the last one included") {
  const test::TempDir folder;
  const std::string notes = (folder / "notes").string();
  NamedJob job("exit $RANK", {"--max-restarts=1", "--on-event=" + note_in(notes)});
  job.end(1);
  const auto lines = lines_of(notes);
  REQUIRE(lines.size() > 8);
  CHECK_THAT(lines.front(), StartsWith("round_began " + job.id() + R"( {"number":1,)"));
  CHECK_THAT(lines.back(), StartsWith("job_ended ") && Contains(R"("outcome":"failed")"));
  const auto count = [&](const std::string& name) {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line.starts_with(name + " "); });
  };
  CHECK(count("round_began") == 2);
  CHECK(count("worker_began") == 4);
  CHECK(count("worker_ended") == 4);
  CHECK(count("line") == 0);
}

TEST_CASE("a command that runs while a round ends is nothing that workers have left") {
  const test::TempDir folder;
  const std::string notes = (folder / "notes").string();
  for (const std::string level : {"tree", "auto"}) {
    NamedJob job("exit $RANK", {"--max-restarts=1", "--contain=" + level,
                                "--on-event=sleep 0.3 & wait; echo $DDPRUN_EVENT >>" + notes});
    CHECK_THAT(job.end(1), !Contains("left processes running"));
  }
  CHECK(lines_of(notes).size() > 16);
}

TEST_CASE("a command that fails, hangs or is missing is told once, and the job goes on") {
  NamedJob fails("echo up", {"--on-event=echo oh no >&2; exit 3"});
  const std::string err = fails.end(0);
  const std::string told =
      "the command of --on-event has failed, which is not told again: exited "
      "with code 3: oh no\n";
  CHECK_THAT(err, Contains(told));
  CHECK(err.find(told) == err.rfind(told));
  NamedJob hangs("echo up", {"--on-event=sleep 60"});
  CHECK_THAT(hangs.end(0), Contains("waiting for the command of --on-event, for at most 10 s\n") &&
                               Contains("the command of --on-event was not told of "));
  NamedJob missing("echo up; sleep 0.5", {"--on-event=no-such-command", "--on-notice=neither"});
  CHECK_THAT(missing.end(0),
             Contains("no-such-command") &&
                 Contains("the command of --on-notice cannot be run: exited with code 127"));
  NamedJob empty("echo up", {"--on-event= "});
  CHECK_THAT(empty.end(2), Contains("--on-event= : expected a command"));
}

TEST_CASE("when the command of --on-notice ends with 0 workers save, once") {
  const test::TempDir folder;
  const std::string runs = (folder / "runs").string();
  const std::vector<std::string> saves{test::helper("job_worker"), "saves", "saves", "sleep", "60"};
  // Before a worker can save: it is asked later.
  NamedJob job(saves, {"--on-notice=echo run >>" + runs + "; echo taken away at noon"});
  job.await("saved");
  REQUIRE(job.job().wait_for([](auto&, const std::string& err) {
    return err.find("2 workers have saved, by step 5") != std::string::npos;
  }));
  CHECK_THAT(job.ctl({"events", job.id()}).out, Contains("  notice  text=taken away at noon\n"));
  job.ctl({"stop", job.id()});
  CHECK_THAT(job.end(128 + SIGTERM),
             Contains("a notice has come (--on-notice), and asks for a checkpoint: taken away at "
                      "noon\n"));
  CHECK(lines_of(runs).size() == 1);
}

TEST_CASE("the command of --on-notice is run again until it ends with 0, and ends with the job") {
  const test::TempDir folder;
  const std::string runs = (folder / "runs").string();
  NamedJob job("exit $RANK",
               {"--max-restarts=2", "--on-notice=echo run >>" + runs + "; exec sleep 600"});
  job.end(1);
  CHECK(lines_of(runs).size() == 1);
  NamedJob again(test::kRunsOn, {"--on-notice=echo run >>" + runs + "; exit 1"});
  again.await("up");
  CHECK(test::eventually([&] { return lines_of(runs).size() == 3; }, std::chrono::seconds(20)));
  again.ctl({"stop", again.id()});
  CHECK_THAT(again.end(128 + SIGTERM), !Contains("notice"));
}
