// Survivors of `train` go on under ddprun itself: kills at random moments cost no bit and no
// checkpoint is read.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/repeats.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

std::vector<pid_t> train_processes_of(const Job& job) {
  auto found = processes_with(job.mark_entry());
  std::erase_if(found, [](pid_t pid) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> name;
    return name != "train";
  });
  return found;
}

/// A job of four workers without checkpoints, which a restart of all could not go on from.
class ElasticRun {
 public:
  explicit ElasticRun(const std::string& data)
      : arguments_{"--data",          data,           "--batch=8", "--shards=4",
                   "--max-steps=800", "--epochs=100", "--json",    "--checkpoint-every=off"} {}

  [[nodiscard]] std::string undisturbed() const {
    return train({.world_size = 1, .arguments = arguments_});
  }
  /// Gives rank 0's last line.
  std::string with_kills(int kills, int at_once, std::mt19937& random) {
    std::vector<std::string> words{program("ddprun"), "--nproc-per-node=4", "--restart-delay=0",
                                   "--max-restarts=" + std::to_string(2 * kills * at_once),
                                   program("train")};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    Child child(words, job_.settings());
    for (int i = 0; i < kills; ++i) {
      // Only workers that train can go on: a kill before that starts all of them again.
      const auto begun = [&](auto&, const std::string& err) {
        return rounds_begun(err) > i || child_has_begun(child);
      };
      if (!child.wait_for(begun)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
      auto workers = train_processes_of(job_);
      std::shuffle(workers.begin(), workers.end(), random);
      for (int n = 0; n < at_once && n < std::ssize(workers); ++n)
        kill(workers[static_cast<std::size_t>(n)], SIGKILL);
      seen_ = child.out().size();
    }
    const ChildResult result = child.wait();
    CHECK(eventually([this] { return processes_with(job_.mark_entry()).empty(); }));
    INFO(result.out + result.err);
    REQUIRE(result.status == 0);
    err_ = result.err;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      if (const auto prefix = line.find("] "); line.starts_with('[')) line.erase(0, prefix + 2);
      if (field(line, "type") == "final") return line;
    }
    return "";
  }
  [[nodiscard]] const std::string& err() const { return err_; }

 private:
  /// Something was printed since the newest kill: intervals, or the first line.
  [[nodiscard]] bool child_has_begun(const Child& child) const {
    return child.out().size() > seen_;
  }
  static int rounds_begun(const std::string& err) {
    int count = 0;
    for (std::size_t at = 0; (at = err.find("workers go on", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  std::vector<std::string> arguments_;
  Job job_;
  std::string err_;
  std::size_t seen_ = 0;  // of its output, at the newest kill
};

}  // namespace

TEST_CASE("a run that SIGTERM ends after a recovery saves its state") {
  const SmallData data;
  const TempDir directory;
  const std::filesystem::path out = directory / "out";
  Job job;
  Child child({program("ddprun"), "--nproc-per-node=4", "--restart-delay=0", "--max-restarts=3",
               program("train"), "--data", data.path(), "--batch=8", "--shards=4",
               "--epochs=100000", "--checkpoint-every=1000000", "--out", out},
              job.settings());
  REQUIRE(child.wait_for_output("training on "));
  std::this_thread::sleep_for(300ms);  // until it trains
  kill(train_processes_of(job).back(), SIGKILL);
  REQUIRE(child.wait_for([](auto&, const std::string& err) {
    return err.find("workers go on after step ") != std::string::npos;
  }));
  REQUIRE(child.wait_for_output("no checkpoint was read"));
  std::this_thread::sleep_for(300ms);
  child.signal(SIGTERM);
  const ChildResult result = child.wait();
  INFO(result.out + result.err);
  CHECK(result.status == 143);
  CHECK(latest_step(out) > 0);
  CHECK((result.out + result.err).find("gave up") == std::string::npos);
}

TEST_CASE("a run under ddprun whose workers are killed ends with the bits of an undisturbed one") {
  const SmallData data;
  ElasticRun run(data.path());
  const std::string base = run.undisturbed();
  std::mt19937 random{Catch::rngSeed()};
  for (int turn = 0; turn < repeats("DDPRUN_TEST_TURNS", 2); ++turn) {
    const int at_once = turn % 2 + 1;
    const std::string final_line = run.with_kills(3, at_once, random);
    check_same_result(base, final_line, "test_accuracy");
    CHECK_THAT(run.err(), Contains("workers go on after step "));
  }
}
