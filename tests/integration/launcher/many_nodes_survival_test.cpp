// Jobs of several nodes, and an rdzvd with a state folder that is killed again and again.
#include <memory>

#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// At the job's port. It prints how many agents have a connection.
std::vector<std::string> rdzvd_of(const ManyNodes& job, const TempDir& state) {
  return {program("rdzvd"), "--listen=127.0.0.1:" + std::to_string(job.port),
          "--state-dir=" + state.path().string(), "--stats-interval=1"};
}

bool has_agents(Child& rdzvd, int count) {
  return rdzvd.wait_for([&](const auto&, const auto& err) {
    return err.find("; " + std::to_string(count) + " agents now") != std::string::npos;
  });
}

}  // namespace

TEST_CASE("workers do not notice that rdzvd is killed five times") {
  ManyNodes job;
  const TempDir state;
  constexpr int kNodes = 4;
  auto options = job.c10d(std::to_string(kNodes));
  options.push_back("--rdzv-conf=is_host=0");
  options.push_back("--max-restarts=3");
  auto rdzvd = std::make_unique<Child>(rdzvd_of(job, state));
  REQUIRE(rdzvd->wait_for_output("\n"));
  for (int i = 0; i < kNodes; ++i) job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/8 "));
  for (int i = 0; i < 5; ++i) {
    rdzvd->signal(SIGKILL);
    CHECK(rdzvd->wait().status == 128 + SIGKILL);
    rdzvd = std::make_unique<Child>(rdzvd_of(job, state));
    REQUIRE(has_agents(*rdzvd, kNodes));
  }
  job.open_gate();
  succeed_without_restart(job, 2 * kNodes);
  rdzvd->signal(SIGTERM);
  CHECK(rdzvd->wait().status == 0);
}

TEST_CASE("a worker that fails after rdzvd was killed restarts the job as ever") {
  ManyNodes job;
  const TempDir state;
  auto options = job.c10d("2");
  options.push_back("--rdzv-conf=is_host=0");
  options.push_back("--max-restarts=1");
  auto rdzvd = std::make_unique<Child>(rdzvd_of(job, state));
  REQUIRE(rdzvd->wait_for_output("\n"));
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate(), "fail", "3", "0", "7"});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  rdzvd->signal(SIGKILL);
  rdzvd->wait();
  job.open_gate();  // the failure is told to the next one
  rdzvd = std::make_unique<Child>(rdzvd_of(job, state));
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("round=1"));
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
  }
  CHECK(all_said(nodes, "restarts").count("1") == 4);
}
