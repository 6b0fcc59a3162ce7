// What becomes of the files of a round when it is over.
#include "agent/control/round_failures.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/streams/log_file.hpp"
#include "agent/workers/worker_environment.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// A round of one worker that ran for 5 s and ended with code 1.
struct OneWorkerRound {
  test::TempDir folder;
  agent::AgentConfig config;
  proto::Round round;
  agent::WorkerRecord worker;
  std::chrono::system_clock::time_point began = std::chrono::system_clock::now() - 10s;

  OneWorkerRound() {
    config.run_directory = folder.path().string();
    config.workers.resize(1);
    worker.exit = ExitStatus{false, 1, false};
    worker.ended_at = worker.started_at + 5s;
  }

  /// Its error file, last written so long after the round began.
  void error_file_written(std::chrono::nanoseconds after) {
    const std::string path = agent::error_file(config, round, 0);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << R"({"message": "ValueError: bad lr"})";
    const auto file_now = std::filesystem::file_time_type::clock::now();
    const auto age = std::chrono::system_clock::now() - (began + after);
    std::filesystem::last_write_time(path, file_now - age);
  }

  proto::Evidence evidence() const {
    std::vector<agent::WorkerRecord> workers{worker};
    workers.front().start = round;
    const agent::ProgressPages pages(1);
    const auto failures =
        agent::failures_of({config, round, workers, worker.started_at, began, std::nullopt, SIGTERM,
                            false, nullptr, pages, nullptr});
    REQUIRE(failures.size() == 1);
    return failures[0].evidence;
  }
};

}  // namespace

TEST_CASE("an error file counts from the time at which it was written") {
  OneWorkerRound of;
  of.error_file_written(2s);
  const proto::Evidence evidence = of.evidence();
  CHECK(evidence.kind == proto::EvidenceKind::error_file);
  CHECK(evidence.at > 1900ms);
  CHECK(evidence.at < 2100ms);
}

TEST_CASE("an error file is not lost by a clock that is set during the round") {
  OneWorkerRound of;
  SECTION("back") { of.error_file_written(-1h); }
  SECTION("forward") { of.error_file_written(1h); }
  const proto::Evidence evidence = of.evidence();
  CHECK(evidence.kind == proto::EvidenceKind::error_file);
  CHECK(evidence.text == "ValueError: bad lr");
  CHECK(evidence.at == 5s);  // its worker's end: when it was written is not known
}

TEST_CASE("an error file of an earlier round in the same folder is not this round's") {
  OneWorkerRound of;
  of.config.logs.folder = (of.folder / "logs").string();
  of.round.restart_count = 2;
  of.round.number = 3;  // a round that was no restart: it goes on in the folder of the one before
  SECTION("from before it began") {
    of.error_file_written(-1s);
    CHECK(of.evidence().kind == proto::EvidenceKind::own_exit);
  }
  SECTION("from this round") {
    of.error_file_written(1s);
    CHECK(of.evidence().kind == proto::EvidenceKind::error_file);
  }
}

TEST_CASE("files of a round in the run directory are removed and log folders are not touched") {
  OneWorkerRound of;
  of.error_file_written(1s);
  std::ofstream(agent::progress_file(of.config, of.round, 0)) << "opened and never updated";
  agent::remove_worker_files(of.config, {of.worker});
  CHECK(std::filesystem::is_empty(of.folder.path()));
  of.config.logs.folder = (of.folder / "logs").string();
  of.error_file_written(1s);
  agent::remove_worker_files(of.config, {of.worker});
  CHECK(std::filesystem::exists(agent::error_file(of.config, of.round, 0)));
  of.config.run_directory.clear();
  agent::remove_worker_files(of.config, {of.worker});
}

TEST_CASE("log files without a writer are forgotten") {
  const test::TempDir folder;
  int opened = 0;
  const auto open = [&](const std::string& path) {
    ++opened;
    return *agent::LogFile::open(path, {});
  };
  agent::SharedLogFiles files;
  for (int round = 0; round < 20; ++round) {
    const std::string path = (folder / ("round_" + std::to_string(round))).string();
    const auto first = files.get(path, open);
    CHECK(files.get(path, open) == first);
    CHECK(files.size() == 1);
  }
  CHECK(opened == 20);
  const std::string path = (folder / "refused").string();
  const auto refuse = [](const std::string&) { return std::shared_ptr<agent::LogFile>(); };
  CHECK(files.get(path, refuse) == nullptr);
  CHECK(files.get(path, open) != nullptr);
}
