// A job of several nodes over three rdzvd that share a journal in etcd.
#include <memory>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/support/real_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("workers do not notice that the leading rdzvd is killed") {
  RealEtcd etcd(3);
  constexpr std::size_t kDaemons = 3;
  const auto ports = free_ports(kDaemons);
  std::string endpoints;
  for (const std::uint16_t port : ports)
    endpoints += (endpoints.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(port));
  std::vector<std::unique_ptr<Child>> rdzvd(kDaemons);
  const auto start = [&](std::size_t i) {
    rdzvd[i] = std::make_unique<Child>(
        std::vector<std::string>{program("rdzvd"), "--listen=127.0.0.1:" + std::to_string(ports[i]),
                                 "--journal=" + etcd.place() + "/jobs", "--stats-interval=1"});
    REQUIRE(rdzvd[i]->wait_for_output("\n"));
  };
  for (std::size_t i = 0; i < kDaemons; ++i) start(i);
  ManyNodes job;
  constexpr int kNodes = 4;
  for (int i = 0; i < kNodes; ++i)
    job.start({"--nnodes=" + std::to_string(kNodes), "--nproc-per-node=1", "--rdzv-backend=c10d",
               "--rdzv-endpoint=" + endpoints, "--max-restarts=3"},
              {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  // Which one leads, but for the one that was killed.
  const auto leader = [&](std::size_t killed) {
    std::size_t index = kDaemons;
    REQUIRE(eventually(
        [&] {
          const std::string now = etcd.value("jobs/leader");
          for (std::size_t i = 0; i < kDaemons; ++i)
            if (i != killed && now == "127.0.0.1:" + std::to_string(ports[i])) index = i;
          return index < kDaemons;
        },
        std::chrono::seconds(20)));
    return index;
  };
  std::size_t index = leader(kDaemons);
  for (int kills = 0; kills < 2; ++kills) {
    // All nodes are there: what is killed is used.
    REQUIRE(rdzvd[index]->wait_for([&](const auto&, const auto& err) {
      return err.find("; " + std::to_string(kNodes) + " agents now") != std::string::npos;
    }));
    rdzvd[index]->signal(SIGKILL);
    CHECK(rdzvd[index]->wait().status == 128 + SIGKILL);
    const std::size_t killed = index;
    index = leader(killed);
    start(killed);
  }
  job.open_gate();
  succeed_without_restart(job, kNodes);
}
