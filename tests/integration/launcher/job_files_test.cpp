// The files of a job: its run directory, and where its report goes.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("the run directory does not grow with the rounds") {
  const auto result =
      test::run_script({"--nproc-per-node=2", "--max-restarts=4", "--output=pipe"},
                       "set -- ${TORCHELASTIC_ERROR_FILE%/*}/round_$((DDPRUN_ROUND - 1))_*; "
                       "test -e $1 && echo round $DDPRUN_ROUND finds $1; "
                       "echo '{\"message\":\"Error: bad lr\"}' > $TORCHELASTIC_ERROR_FILE; "
                       "$W page ''; exit 3");
  CHECK(result.job.status == 3);
  CHECK(result.job.out.empty());
  CHECK_THAT(result.report, Contains("Error: bad lr") && Contains("\"restart_count\": 4"));
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

TEST_CASE("a report that goes to our own output stands behind what is there") {
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
