// Workers that leave with exit code 0 while others still need them.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;

TEST_CASE("a worker that has ended too early is named before the one that lost it") {
  const auto result = test::run_script(
      {"--nproc-per-node=2"},
      "case $RANK in 0) sleep 0.6; echo 'RuntimeError: Connection closed by peer' >&2; exit 1;; "
      "esac");
  CHECK_THAT(result.job.err,
             Catch::Contains("ddprun: culprit: probably rank 1 (local rank 1, pid ") &&
                 Catch::Contains("), which had ended with exit code 0, ") &&
                 Catch::Contains("\nddprun: failed first: rank 0 (local rank 0, pid "));
  const auto report = nlohmann::json::parse(result.report);
  CHECK(report["culprit"]["rank"] == 0);
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 1);
  CHECK(report["suspects"][0]["exit_code"] == 0);
}

TEST_CASE("a worker that leaves is named also where its process ends after those that lost it") {
  for (const char* ranks : {"2", "4"}) {
    const auto result = test::run_script(
        {std::string("--nproc-per-node=") + ranks},
        "case $RANK in 1) sleep 0.3;; "
        "0) sleep 0.1; echo 'RuntimeError: Connection closed by peer' >&2; exit 1;; "
        "*) sleep 0.15; echo 'RuntimeError: Connection closed by peer' >&2; exit 1;; esac");
    CHECK_THAT(result.job.err,
               Catch::Contains("ddprun: culprit: probably rank 1 (local rank 1, pid ") &&
                   Catch::Contains("), which had ended with exit code 0, at that time\n"));
    const auto report = nlohmann::json::parse(result.report);
    REQUIRE(report["suspects"].size() == 1);
    CHECK(report["suspects"][0]["rank"] == 1);
  }
}
