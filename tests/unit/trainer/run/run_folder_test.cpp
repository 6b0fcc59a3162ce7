// Which directory is the run's.
#include "trainer/run/run_folder.hpp"

#include <catch2/catch.hpp>

#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("the directory of the run is the one of --out") {
  Options options;
  options.out = "/some/where";
  CHECK(choose_out(options, WorkerEnvironment(), "/base") == "/some/where");
}

TEST_CASE("a run id names the directory, whatever letters it has") {
  WorkerEnvironment environment;
  environment.run_id = "job-7";
  CHECK(choose_out({}, environment, "/base") == "/base/ddprun-out/job-7");
  environment.run_id = "../../etc";
  CHECK(choose_out({}, environment, "/base") == "/base/ddprun-out/_.._.._etc");
}

TEST_CASE(
    "without a run id a new run takes the next free directory, and its restart the same one") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment environment;
  const std::filesystem::path folder = directory / "ddprun-out";
  CHECK(choose_out({}, environment, directory.path()) == folder / "run-0001");
  std::filesystem::create_directories(folder / "run-0001");
  std::filesystem::create_directories(folder / "run-0009");
  CHECK(choose_out({}, environment, directory.path()) == folder / "run-0010");
  environment.restart_count = 1;
  CHECK(choose_out({}, environment, directory.path()) == folder / "run-0009");
}

TEST_CASE("without a run id a restart finds its own job's directory among those of others") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment mine;
  mine.job_socket = "@ddprun/0/none";
  WorkerEnvironment other;
  other.job_socket = "@ddprun/0/none.77";
  const std::filesystem::path first = choose_out({}, mine, directory.path());
  mark_run({}, mine, first);
  const std::filesystem::path second = choose_out({}, other, directory.path());
  CHECK(second != first);
  mark_run({}, other, second);
  mine.restart_count = other.restart_count = 1;
  CHECK(choose_out({}, mine, directory.path()) == first);
  CHECK(choose_out({}, other, directory.path()) == second);
  // A job whose rank 0 ran elsewhere before has none here: it takes nobody else's.
  WorkerEnvironment third;
  third.job_socket = "@ddprun/0/none.78";
  third.round = 2;
  CHECK(choose_out({}, third, directory.path()) == directory / "ddprun-out" / "run-0003");
}

TEST_CASE("a mark is not written through a link, nor looked for behind one") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment mine;
  mine.job_socket = "@ddprun/0/none";
  const std::filesystem::path run = directory / "ddprun-out" / "run-0001";
  std::filesystem::create_directories(run);
  std::filesystem::create_symlink(directory / "victim", run / "job");
  mark_run({}, mine, run);
  CHECK_FALSE(std::filesystem::exists(directory / "victim"));
}

TEST_CASE("a directory that is named by --out or a run id is not marked") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment environment;
  environment.job_socket = "@ddprun/0/job-7";
  environment.run_id = "job-7";
  mark_run({}, environment, directory / "a");
  CHECK_FALSE(std::filesystem::exists(directory / "a"));
}

}  // namespace
}  // namespace ddprun::trainer
