// The files of a job.
#include <catch2/catch.hpp>

#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;

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
