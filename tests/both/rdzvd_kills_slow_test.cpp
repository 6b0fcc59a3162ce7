// train goes on while rdzvd is killed again and again. DDPRUN_KILL_SECONDS is the length of the
// run.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/integration/launcher/marked_job.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

Seconds wanted_length() {
  const char* const given = std::getenv("DDPRUN_KILL_SECONDS");
  return Seconds(given != nullptr ? std::strtod(given, nullptr) : 10);
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

TEST_CASE("a training does not notice that rdzvd is killed every second") {
  const SmallData data;
  const Seconds wanted = wanted_length();
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
