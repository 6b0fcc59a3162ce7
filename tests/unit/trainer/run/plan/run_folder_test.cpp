// Which directory is the run's.
#include "trainer/run/plan/run_folder.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer {
namespace {

const std::string kNow = "2026-11-28_17-15-33";

TEST_CASE("the directory of the run is the one of --out") {
  Options options;
  options.checkpoints.out = "/some/where";
  CHECK(choose_out(options, WorkerEnvironment(), "/base", kNow) == "/some/where");
}

TEST_CASE("a run id names the directory, whatever letters it has") {
  WorkerEnvironment environment;
  environment.run_id = "job-7";
  CHECK(choose_out({}, environment, "/base", kNow) == "/base/ddprun-out/job-7");
  environment.run_id = "../../etc";
  CHECK(choose_out({}, environment, "/base", kNow) == "/base/ddprun-out/_.._.._etc");
}

TEST_CASE("a run id that is the name of the link to the newest run does not lead into that run") {
  WorkerEnvironment environment;
  environment.run_id = "latest";
  CHECK(choose_out({}, environment, "/base", kNow) == "/base/ddprun-out/_latest");
  environment.run_id = "latest.txt";
  CHECK(choose_out({}, environment, "/base", kNow) == "/base/ddprun-out/_latest.txt");
  environment.run_id = "latest-2";
  CHECK(choose_out({}, environment, "/base", kNow) == "/base/ddprun-out/latest-2");
}

TEST_CASE("without a run id a new run is named by date and time, and its restart finds it") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment environment;
  const std::filesystem::path folder = directory / "ddprun-out";
  const auto chosen = [&](const std::string& now = kNow) {
    return choose_out({}, environment, directory.path(), now);
  };
  CHECK(chosen() == folder / kNow);
  std::filesystem::create_directories(folder / kNow);
  CHECK(chosen() == folder / (kNow + "_2"));
  std::filesystem::create_directories(folder / (kNow + "_2"));
  CHECK(chosen() == folder / (kNow + "_3"));
  CHECK(chosen("2026-11-28_17-15-34") == folder / "2026-11-28_17-15-34");
  environment.restart_count = 1;
  // The one that was written to last, whatever its name; not one of another kind.
  for (const std::string name : {"job-7", "latest", "2026-11-28"})
    std::filesystem::create_directories(folder / name);
  using std::chrono::hours;
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(folder / kNow, now - hours(1));
  std::filesystem::last_write_time(folder / (kNow + "_2"), now - hours(2));
  CHECK(chosen("2026-11-28_18-00-00") == folder / kNow);
}

TEST_CASE("a restart without a run id does not take the directory of a run that has one") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment environment;
  environment.restart_count = 1;
  const std::filesystem::path folder = directory / "ddprun-out";
  for (const char* const end : {"_3f9c2a1b", "_12345678", "_1234", "_", "-2", "_2x"})
    std::filesystem::create_directories(folder / (kNow + end));
  CHECK(choose_out({}, environment, directory.path(), "2026-11-28_18-00-00") ==
        folder / "2026-11-28_18-00-00");
  std::filesystem::create_directories(folder / (kNow + "_123"));
  CHECK(choose_out({}, environment, directory.path(), "2026-11-28_18-00-00") ==
        folder / (kNow + "_123"));
}

TEST_CASE("without a run id a restart finds its own job's directory among those of others") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment mine;
  mine.job_socket = "@ddprun/0/none";
  WorkerEnvironment other;
  other.job_socket = "@ddprun/0/none.77";
  const std::filesystem::path first = choose_out({}, mine, directory.path(), kNow);
  mark_run({}, mine, first);
  const std::filesystem::path second = choose_out({}, other, directory.path(), kNow);
  CHECK(second != first);
  mark_run({}, other, second);
  mine.restart_count = other.restart_count = 1;
  CHECK(choose_out({}, mine, directory.path(), kNow) == first);
  CHECK(choose_out({}, other, directory.path(), kNow) == second);
  // A job whose rank 0 ran elsewhere before has none here: it takes nobody else's.
  WorkerEnvironment third;
  third.job_socket = "@ddprun/0/none.78";
  third.round = 2;
  CHECK(choose_out({}, third, directory.path(), kNow) == directory / "ddprun-out" / (kNow + "_3"));
}

TEST_CASE("a mark is not written through a link, nor looked for behind one") {
  const ddprun::test::TempDir directory;
  WorkerEnvironment mine;
  mine.job_socket = "@ddprun/0/none";
  const std::filesystem::path run = directory / "ddprun-out" / kNow;
  std::filesystem::create_directories(run);
  std::filesystem::create_symlink(directory / "victim", run / "job");
  mark_run({}, mine, run);
  CHECK_FALSE(std::filesystem::exists(directory / "victim"));
  // The mark of a run of its own, so that only the link keeps the restart from it.
  const std::filesystem::path marked = directory / "marked";
  mark_run({}, mine, marked);
  std::filesystem::rename(marked / "job", directory / "victim");
  mine.restart_count = 1;
  CHECK(choose_out({}, mine, directory.path(), kNow) == run.string() + "_2");
  std::filesystem::remove(run / "job");
  std::filesystem::rename(directory / "victim", run / "job");
  CHECK(choose_out({}, mine, directory.path(), kNow) == run);
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
