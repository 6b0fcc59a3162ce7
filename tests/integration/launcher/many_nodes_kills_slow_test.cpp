// rdzvd is killed at random instants, and again and again. DDPRUN_TEST_SEED repeats a run;
// DDPRUN_KILL_RUNS is the number of jobs, DDPRUN_KILL_SECONDS the length of the long one.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "tests/integration/launcher/marked_job.hpp"
#include "tests/integration/launcher/surviving_job.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

unsigned number_from(const char* name, unsigned otherwise) {
  const char* const given = std::getenv(name);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

/// How long it takes without a kill.
Seconds undisturbed_job() {
  SurvivingJob job;
  job.start_rdzvd();
  const auto begin = Clock::now();
  job.start_nodes();
  job.check_outcome();
  return Clock::now() - begin;
}

/// Four agents of two workers each that train over the same small set.
class Training {
 public:
  explicit Training(const std::vector<std::string>& arguments) {
    start_rdzvd();
    ChildOptions settings = nodes_.job.settings();
    settings.limit = std::chrono::minutes(10);
    for (int i = 0; i < 4; ++i) {
      std::vector<std::string> words{program("ddprun"), "--output=pipe", "--max-restarts=3"};
      for (const std::string& option : nodes_.c10d("4")) words.push_back(option);
      words.insert(words.end(), {"--rdzv-conf=is_host=0", "/bin/sh", "-c",
                                 "echo \"met rank=$RANK round=$DDPRUN_ROUND \"; exec \"$@\"", "sh",
                                 program("train")});
      words.insert(words.end(), arguments.begin(), arguments.end());
      words.insert(words.end(), {"--json", "--quiet"});
      nodes_.nodes.emplace_back(words, settings);
    }
  }
  bool ends_within(std::chrono::milliseconds limit) {
    return eventually(
        [&] {
          return std::all_of(nodes_.nodes.begin(), nodes_.nodes.end(), [](const Child& node) {
            return std::string("ZX").find(state_of(node.pid())) != std::string::npos;
          });
        },
        limit);
  }
  void kill_rdzvd() {
    rdzvd_->signal(SIGKILL);
    CHECK(rdzvd_->wait().status == 128 + SIGKILL);
    start_rdzvd();
  }
  /// Each worker was started once; gives the hash of the weights.
  std::string weights() {
    const std::vector<ChildResult> nodes = nodes_.wait();
    std::string found;
    for (const ChildResult& node : nodes) {
      INFO(node.out + node.err);
      CHECK(node.status == 0);
      CHECK(said(node.out, "round") == std::vector<std::string>{"0", "0"});
      const std::string name = "\"weights\":\"";
      if (const auto at = node.out.find(name); at != std::string::npos)
        found = node.out.substr(at + name.size(), 16);
    }
    return found;
  }

 private:
  void start_rdzvd() {
    rdzvd_ = std::make_unique<Child>(std::vector<std::string>{
        program("rdzvd"), "--listen=127.0.0.1:" + std::to_string(nodes_.port),
        "--state-dir=" + state_.path().string()});
    REQUIRE(rdzvd_->wait_for_output("\n"));
  }

  ManyNodes nodes_;
  TempDir state_;
  std::unique_ptr<Child> rdzvd_;
};

std::vector<std::string> epochs(const SmallData& data, int count) {
  return {"--data",
          data.path(),
          "--batch",
          "4",
          "--shards",
          "8",
          "--epochs",
          std::to_string(count),
          "--checkpoint-every",
          "off"};
}

}  // namespace

TEST_CASE("a job survives an rdzvd that is killed at any instant") {
  const unsigned seed = number_from("DDPRUN_TEST_SEED", std::random_device{}());
  const unsigned runs = number_from("DDPRUN_KILL_RUNS", 20);
  std::cout << "DDPRUN_TEST_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  std::uniform_real_distribution<> share(0, 1);
  const Seconds length = undisturbed_job();
  int killed = 0;
  for (unsigned run = 0; run < runs; ++run) {
    INFO("DDPRUN_TEST_SEED=" << seed << ", run " << run);
    SurvivingJob job;
    job.start_rdzvd();
    job.start_nodes();
    for (auto kills = 1 + random() % 3; kills > 0; --kills) {
      std::this_thread::sleep_for(share(random) * length / 2);
      job.kill_rdzvd();
      ++killed;
      job.start_rdzvd();
    }
    job.check_outcome();
  }
  std::cout << "rdzvd was killed " << killed << " times in " << runs << " jobs" << std::endl;
}

TEST_CASE("a training does not notice that rdzvd is killed every second") {
  const SmallData data;
  const Seconds wanted(number_from("DDPRUN_KILL_SECONDS", 10));
  constexpr int kSome = 3;
  const auto begin = Clock::now();
  Training some(epochs(data, kSome));
  const std::string of_some = some.weights();
  const Seconds took = Clock::now() - begin;
  CHECK(of_some == weights({.world_size = 2, .arguments = epochs(data, kSome)}));

  const int count = std::max(kSome, static_cast<int>(kSome * wanted / took));
  Training training(epochs(data, count));
  int kills = 0;
  while (!training.ends_within(std::chrono::seconds(1))) {
    training.kill_rdzvd();
    ++kills;
  }
  std::cout << "rdzvd was killed " << kills << " times in " << count << " epochs" << std::endl;
  CHECK(kills > 0);
  CHECK(training.weights() == weights({.world_size = 2, .arguments = epochs(data, count)}));
}
