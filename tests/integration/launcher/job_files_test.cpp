// The files of a job: its run directory, and where its reports go.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>

#include "base/unique_handle.hpp"
#include "tests/integration/launcher/script_job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("the run directory does not grow with the rounds") {
  const auto result = test::run_script(
      {"--nproc-per-node=2", "--max-restarts=4", "--restart-delay=0", "--output=pipe"},
      "set -- ${TORCHELASTIC_ERROR_FILE%/*}/round_$((DDPRUN_ROUND - 1))_*; "
      "test -e $1 && echo round $DDPRUN_ROUND finds $1; "
      "echo '{\"message\":\"Error: bad lr\"}' > $TORCHELASTIC_ERROR_FILE; "
      "$W page ''; exit 3");
  CHECK(result.job.status == 3);
  CHECK(result.job.out.empty());
  CHECK_THAT(result.report, Contains("Error: bad lr") && Contains("\"restart_count\": 4"));
}

TEST_CASE("the shortest job removes the run directory of a job that was killed") {
  std::string memory = "/dev/shm/ddprun_test_XXXXXX";
  if (mkdtemp(memory.data()) == nullptr) test::skip("no folder can be made in /dev/shm");
  test::Job job;
  auto settings = job.settings();
  for (auto& [name, value] : settings.environment)
    if (name == "TMPDIR") value = memory;
  test::Child killed(test::Job::command({}, {"print", "runs", "sleep", "100"}), settings);
  CHECK(killed.wait_for_output("runs"));
  for (const pid_t pid : test::processes_with(job.mark_entry())) kill(pid, SIGKILL);
  killed.wait();
  CHECK_FALSE(std::filesystem::is_empty(memory));
  CHECK(test::run(test::Job::command({}, {"print", "short"}), settings).status == 0);
  CHECK(std::filesystem::is_empty(memory));
  std::filesystem::remove_all(memory);
}

TEST_CASE("error files in a folder for logs stay") {
  const test::TempDir logs;
  const auto result =
      test::run_script({"--log-dir=" + logs.path().string(), "--max-restarts=1"},
                       "echo '{\"message\":\"Error: bad lr\"}' > $TORCHELASTIC_ERROR_FILE; exit 3");
  CHECK(result.job.status == 3);
  for (const char* attempt : {"attempt_0", "attempt_1"})
    CHECK(std::filesystem::exists(logs / "latest" / attempt / "0" / "error.json"));
}

namespace {

std::string job_file_text(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Runs `ddprun OPTIONS job_worker ACTIONS` behind a redirection of the shell.
int run_redirected(const std::string& redirection, const std::vector<std::string>& options,
                   const std::vector<std::string>& actions) {
  test::Job job;
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" " + redirection, "sh"};
  for (const std::string& word : test::Job::command(options, actions)) words.push_back(word);
  return test::run(words, job.settings()).status;
}

}  // namespace

TEST_CASE("a report that goes to ddprun's own output is appended") {
  const test::TempDir folder;
  const std::string file = (folder / "all.txt").string();
  SECTION("by the name of stdout") {
    CHECK(run_redirected("> " + file, {"--report=/dev/stdout"}, {"print", "precious"}) == 0);
    CHECK_THAT(job_file_text(file), StartsWith("precious\n{\n") && EndsWith("}\n"));
  }
  SECTION("by the name of stderr and with what the file held before") {
    std::ofstream(file) << "yesterday\n";
    CHECK(run_redirected("2>> " + file, {"--report=/dev/stderr"}, {"print-err", "precious"}) == 0);
    CHECK_THAT(job_file_text(file), StartsWith("yesterday\nprecious\n{\n") && EndsWith("}\n"));
  }
  SECTION("by the file's own name") {
    CHECK(run_redirected("> " + file, {"--report=" + file}, {"print", "precious", "exit", "3"}) ==
          3);
    CHECK_THAT(job_file_text(file), StartsWith("precious\n{\n") && EndsWith("}\n"));
  }
  SECTION("into a pipe") {
    const auto result = test::Job().run({"--report=/dev/stdout"}, {"print", "precious"});
    CHECK_THAT(result.out, StartsWith("precious\n{\n") && EndsWith("}\n"));
  }
}

TEST_CASE("a report of an earlier job does not outlive one that is killed") {
  const test::TempDir folder;
  const std::string file = (folder / "report.json").string();
  std::ofstream(file) << R"({"outcome":"succeeded"})";
  test::Job job;
  test::Child child(test::Job::command({"--report=" + file}, {"print", "ready", "sleep", "60"}),
                    job.settings());
  REQUIRE(child.wait_for_output("ready"));
  CHECK(job_file_text(file).empty());
  child.signal(SIGKILL);
  child.wait();
  CHECK(job_file_text(file).empty());
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("a report of an earlier job does not outlive one that could not start") {
  const test::TempDir folder;
  const std::string file = (folder / "report.json").string();
  std::ofstream(file) << R"({"outcome":"succeeded"})";
  const auto run = [&](const std::string& option) {
    return test::run({test::program("ddprun"), "--report=" + file, option, "/no/such/program"})
        .status;
  };
  run("--dry-run");
  CHECK_FALSE(job_file_text(file).empty());  // nothing was to start
  CHECK(run("--no-python") == 127);
  CHECK(job_file_text(file).empty());
}

TEST_CASE("a report file that cannot be made is an error before any worker starts") {
  const test::TempDir folder;
  for (const std::string& file : {std::string("/proc/none/x"), folder.path().string()}) {
    const auto result =
        test::Job().run({"--report=" + file, "--log-level=error"}, {"print", "started"});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, StartsWith("ddprun: --report: cannot write " + file + ": ") &&
                               EndsWith("; give --report a file that you can write to\n"));
  }
}

TEST_CASE("a dash as the report file is stdout") {
  const auto result = test::Job().run({"--report=-"}, {"exit", "3"});
  CHECK(result.status == 3);
  CHECK_THAT(result.out, StartsWith("{\n") && EndsWith("}\n"));
}

TEST_CASE("a pipe that is to get the report gets it whole") {
  const test::TempDir folder;
  const std::string path = (folder / "pipe").string();
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(test::Job().run({"--report=" + path}, {"exit", "3"}).status == 3);
  std::string text(64 * 1024, ' ');
  const ssize_t count = read(reader.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  CHECK_THAT(text, StartsWith("{\n") && EndsWith("}\n"));
}

TEST_CASE("a report begins on a new line after an unfinished line") {
  const std::vector<std::string> begins{"/bin/sh", "-c", "printf abc >&2; exit 3"};
  const auto command = [&](std::vector<std::string> options) {
    std::vector<std::string> words{test::program("ddprun"), "--output=pipe"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), begins.begin(), begins.end());
    return words;
  };
  test::Job job;
  SECTION("of several workers") {
    const auto result = test::run(command({"--nproc-per-node=2"}), job.settings());
    CHECK_THAT(result.err, Contains("] abc\nddprun: culprit: "));
  }
  SECTION("with a report as JSON between them") {
    const auto result =
        test::run(command({"--nproc-per-node=2", "--report=/dev/stderr"}), job.settings());
    CHECK_THAT(result.err, Contains("] abc\n{\n") && Contains("\n}\nddprun: culprit: "));
  }
  SECTION("of a worker that writes into our file itself") {
    const test::TempDir folder;
    const std::string file = (folder / "err.txt").string();
    std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" 2> " + file, "sh",
                                   test::program("ddprun")};
    words.insert(words.end(), begins.begin(), begins.end());
    CHECK(test::run(words, job.settings()).status == 3);
    CHECK_THAT(job_file_text(file), StartsWith("abc\nddprun: culprit: "));
  }
  SECTION("and leaves no empty line behind one that was") {
    const auto result = test::run(
        {test::program("ddprun"), "--nproc-per-node=2", "/bin/sh", "-c", "echo abc >&2; exit 3"},
        job.settings());
    CHECK_THAT(result.err, Contains("] abc\nddprun: culprit: "));
  }
}

TEST_CASE("files of a job are found from any folder though TMPDIR is relative") {
  const test::TempDir folder;
  const auto run = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words{test::program("ddprun")};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"/bin/sh", "-c",
                               "cd /; echo '{\"message\":\"Error: bad lr\"}' > "
                               "$TORCHELASTIC_ERROR_FILE && > $DDPRUN_PROGRESS_FILE; exit 3"});
    test::ChildOptions settings;
    settings.directory = folder.path().string();
    settings.environment = {{"TMPDIR", "."}, {"OMP_NUM_THREADS", "1"}};
    return test::run(words, settings);
  };
  auto result = run({});
  CHECK(result.status == 3);
  CHECK_THAT(result.err, StartsWith("ddprun: culprit: ") &&
                             Contains("ddprun: evidence: its error file: Error: bad lr\n"));
  CHECK(std::filesystem::is_empty(folder.path()));
  result = run({"--tee=3"});
  CHECK_THAT(result.err, Contains("ddprun: logs are in " + folder.path().string()) &&
                             Contains("ddprun: evidence: its error file: Error: bad lr\n"));
}
