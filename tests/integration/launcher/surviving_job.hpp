// A job of two nodes that restarts once, and an rdzvd with a state folder that dies on the way.
#pragma once

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/launcher/many_nodes.hpp"

namespace ddprun::test {

/// Rank 1 fails in round 0, and all ranks succeed in round 1. No worker bears to live beside
/// another of its rank, nor in a round that is not newer than the last one.
class SurvivingJob {
 public:
  /// With a failpoint (tests/integration/rendezvous/failpoints.cpp) it is the rdzvd of tests.
  void start_rdzvd(const std::string& failpoint = "") {
    ChildOptions options;
    options.environment = {{"DDPRUN_FAILPOINT", failpoint}};
    rdzvd_ = std::make_unique<Child>(
        std::vector<std::string>{failpoint.empty() ? program("rdzvd") : helper("rdzvd_failing"),
                                 "--listen=127.0.0.1:" + std::to_string(nodes_.port),
                                 "--state-dir=" + state_.path().string()},
        options);
    if (failpoint.empty()) REQUIRE(rdzvd_->wait_for_output("\n"));
  }
  void start_nodes() {
    for (int i = 0; i < 2; ++i)
      nodes_.start({"--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d",
                    "--rdzv-endpoint=127.0.0.1:" + std::to_string(nodes_.port),
                    // A lease of 5 s, within which a node comes back on a busy machine, too.
                    "--rdzv-conf=is_host=0,keep_alive_interval=1,keep_alive_max_attempt=5"},
                   {"alone", ranks_.path().string(), "fail", "1", "0", "7"});
  }
  /// The folder in which rdzvd keeps its state.
  [[nodiscard]] const TempDir& state() const { return state_; }
  /// It has died by SIGKILL.
  void wait_for_death() {
    const ChildResult dead = rdzvd_->wait();
    INFO(dead.err);
    CHECK_FALSE(dead.timed_out);
    CHECK(dead.status == 128 + SIGKILL);
  }
  void kill_rdzvd() {
    rdzvd_->signal(SIGKILL);
    wait_for_death();
  }
  /// The job has ended as if nothing had happened to its rendezvous, which forgets it.
  void check_outcome() {
    const std::vector<ChildResult> nodes = nodes_.wait();
    for (const ChildResult& node : nodes) {
      INFO(node.out + node.err);
      CHECK(node.status == 0);
      CHECK_FALSE(node.timed_out);
      const auto rounds = said(node.out, "round");
      // The first round's worker may be stopped before it can say anything.
      REQUIRE_FALSE(rounds.empty());
      CHECK(rounds.back() == "1");
      CHECK(rounds.size() <= 2);
      CHECK(said(node.out, "restarts").back() == "1");
    }
    const auto is_forgotten = [&] {
      for (const auto& entry : std::filesystem::directory_iterator(state_.path()))
        if (entry.path().extension() == ".journal") return false;
      return true;
    };
    // An agent's last word may be lost with rdzvd: then its lease has to end.
    CHECK(eventually(is_forgotten, std::chrono::seconds(30)));
    rdzvd_->signal(SIGTERM);
    const ChildResult last = rdzvd_->wait();
    INFO(last.err);
    CHECK(last.status == 0);
  }

 private:
  ManyNodes nodes_;
  TempDir state_;
  TempDir ranks_;
  std::unique_ptr<Child> rdzvd_;
};

}  // namespace ddprun::test
