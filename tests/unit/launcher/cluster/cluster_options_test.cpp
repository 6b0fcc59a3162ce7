// What is taken of the scheduler where options are not given.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_options.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

namespace {

LaunchResult<ClusterChoice> choice(Words words, const Environment& environment) {
  words.emplace_back("true");
  const auto options = parse_launch_options(words, environment);
  if (!options) FAIL(options.error().message);
  return with_cluster(*options, environment);
}

ClusterChoice taken(const Words& words, const Environment& environment) {
  auto made = choice(words, environment);
  if (!made) FAIL(made.error().message);
  return *made;
}

std::string problem(const Words& words, const Environment& environment) {
  const auto made = choice(words, environment);
  if (made) FAIL("was accepted");
  return made.error().message;
}

Words values(const ClusterUse& use) {
  Words texts;
  for (const ClusterValue& one : use.values) texts.push_back(one.option + "=" + one.value);
  return texts;
}

}  // namespace

TEST_CASE("a step of Slurm needs no option of a rendezvous") {
  std::vector<std::uint16_t> ports;
  for (const int rank : {0, 1}) {
    const auto [options, use] = taken({}, slurm_step(rank));
    CHECK(options.nodes.count.min == 2);
    CHECK(options.nodes.count.max == 2);
    CHECK(options.nodes.rank == rank);
    CHECK(options.rendezvous.backend == "c10d");
    CHECK(options.rendezvous.run_id == "17.4.0");
    REQUIRE(options.rendezvous.endpoint.has_value());
    CHECK(options.rendezvous.endpoint->host == "n2");
    CHECK(options.rendezvous.endpoint->port == use.ports.front());
    CHECK(use.ports.size() == 8);
    CHECK(use.is_first_host == (rank == 0));
    CHECK(use.scheduler == "Slurm");
    CHECK(values(use) ==
          Words{"--nnodes=2", "--node-rank=" + std::to_string(rank), "--rdzv-id=17.4.0",
                "--rdzv-endpoint=" + to_string(*options.rendezvous.endpoint), "--grace-period=25"});
    if (!ports.empty()) CHECK(use.ports == ports);
    ports = use.ports;
  }
}

TEST_CASE("every option that is given wins over the scheduler") {
  Environment step = slurm_step(1);
  step["SLURM_GPUS_ON_NODE"] = "8";
  CHECK(taken({}, step).options.workers.processes.number == 8);
  CHECK(taken({"--nproc-per-node=2"}, step).options.workers.processes.number == 2);
  CHECK(taken({"--gpus=none"}, step).options.workers.processes.number == 1);
  CHECK(taken({"--nnodes=2:3"}, step).options.nodes.count.max == 3);
  CHECK(taken({"--nnodes=2:3"}, step).options.rendezvous.endpoint->host == "n2");
  CHECK(taken({"--rdzv-id=mine"}, step).options.rendezvous.run_id == "mine");
  CHECK(taken({"--grace-period=60"}, step).options.failures.stop.grace_period == 60s);
  CHECK(taken({"--grace-period=5"}, step).options.failures.stop.grace_period == 5s);
  CHECK(taken({"--nnodes=2", "--node-rank=0"}, step).options.nodes.rank == 0);
  const auto [options, use] = taken({"--rdzv-endpoint=head:7"}, step);
  CHECK(options.rendezvous.endpoint == Endpoint("head", 7));
  CHECK(options.rendezvous.backend == "c10d");
  CHECK(options.rendezvous.run_id == "17.4.0");
  CHECK(options.nodes.rank == 1);
  CHECK(use.ports.empty());
  CHECK_FALSE(use.is_first_host.has_value());
}

TEST_CASE("one node by an option or by --standalone asks no scheduler where nodes meet") {
  for (const Words& words : {Words{"--nnodes=1"}, {"--standalone"}}) {
    const auto [options, use] = taken(words, slurm_step(1));
    CHECK(options.nodes.count.max == 1);
    CHECK_FALSE(options.rendezvous.endpoint.has_value());
    CHECK_FALSE(options.rendezvous.run_id.has_value());
    CHECK(use.ports.empty());
  }
}

TEST_CASE("a static job in a step of Slurm has its ranks and its first host") {
  const auto [options, use] = taken({"--master-port=1234"}, slurm_step(1));
  CHECK(options.rendezvous.backend == "static");
  CHECK(options.store.master_addr == "n2");
  CHECK(options.store.master_port == 1234);
  CHECK(options.nodes.rank == 1);
  CHECK(use.ports.empty());
  CHECK(taken({"--rdzv-backend=static"}, slurm_step(0)).options.store.master_addr == "n2");
}

TEST_CASE("a node that a step of its own has started takes only its workers of Slurm") {
  Environment step = slurm_step(0);
  step["SLURM_STEP_NUM_NODES"] = step["SLURM_STEP_NUM_TASKS"] = "1";
  step["SLURM_STEP_NODELIST"] = "n2";
  step["SLURM_GPUS_ON_NODE"] = "4";
  const auto [options, use] = taken({"--nnodes=2", "--master-addr=n1", "--node-rank=1"}, step);
  CHECK(options.nodes.rank == 1);
  CHECK_FALSE(options.rendezvous.run_id.has_value());
  CHECK(options.workers.processes.number == 4);
  CHECK(taken({}, step).options.nodes.count.max == 1);
  CHECK_FALSE(taken({}, step).options.rendezvous.run_id.has_value());
}

TEST_CASE("wrong variables harm only the jobs that need them") {
  Environment tasks = slurm_step(0);
  tasks["SLURM_STEP_NUM_TASKS"] = "8";
  CHECK_THAT(problem({}, tasks), StartsWith("Slurm has started 8 tasks on 2 nodes"));
  CHECK_THAT(problem({"--nnodes=2"}, tasks), StartsWith("Slurm has started 8 tasks"));
  for (const Words& words : {Words{"--standalone"},
                             {"--nnodes=1"},
                             {"--nnodes=8", "--rdzv-backend=c10d", "--rdzv-endpoint=n2"},
                             {"--nnodes=8", "--master-addr=n2", "--node-rank=1"}})
    CHECK(values(taken(words, tasks).use).empty());
}

TEST_CASE("a rank beyond --nnodes is left to the service") {
  CHECK_FALSE(taken({"--nnodes=1:1", "--rdzv-id=x"}, slurm_step(1)).options.nodes.rank.has_value());
  Environment third = slurm_step(0);
  third["SLURM_STEP_NODELIST"] = "n[2-4]";
  third["SLURM_STEP_NUM_NODES"] = third["SLURM_STEP_NUM_TASKS"] = "3";
  third["SLURM_NODEID"] = "2";
  third["SLURMD_NODENAME"] = "n4";
  const auto [options, use] = taken({"--nnodes=2"}, third);
  CHECK_FALSE(options.nodes.rank.has_value());
  CHECK(use.is_first_host == false);
}

TEST_CASE("mpirun's processes need an endpoint, and then no more") {
  CHECK(problem({}, open_mpi(0)) ==
        "OMPI_COMM_WORLD_SIZE=2: the nodes need an address where they meet, which mpirun does not "
        "give; add --rdzv-endpoint=HOST, where HOST is one of the nodes");
  const auto [options, use] = taken({"--rdzv-endpoint=node1"}, open_mpi(1));
  CHECK(options.nodes.count.max == 2);
  CHECK(options.nodes.rank == 1);
  CHECK(options.rendezvous.backend == "c10d");
  CHECK(options.rendezvous.endpoint == Endpoint("node1", std::nullopt));
  CHECK(values(use) == Words{"--nnodes=2", "--node-rank=1"});
  const auto fixed = taken({"--master-addr=node1"}, open_mpi(1)).options;
  CHECK(fixed.rendezvous.backend == "static");
  CHECK(fixed.nodes.rank == 1);
}

TEST_CASE("pods of one Job are one job only where --nnodes says so") {
  const Environment pod = {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "train-1"}};
  CHECK(values(taken({}, pod).use).empty());
  CHECK_THAT(problem({"--nnodes=2"}, pod),
             StartsWith("--nnodes=2: the nodes need an address") && Contains("POD.SERVICE"));
  CHECK(taken({"--nnodes=2", "--rdzv-endpoint=train-0.train"}, pod).options.nodes.rank == 1);
  Environment set = pod;
  set["JOBSET_NAME"] = "jobs";
  const auto [options, use] = taken({"--nnodes=2"}, set);
  CHECK(options.rendezvous.endpoint == Endpoint("train-0.jobs", std::nullopt));
  CHECK(options.rendezvous.backend == "c10d");
  CHECK(use.ports.empty());
}

TEST_CASE("a hint is for those who did not say how many nodes there are") {
  const Environment batch = {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NUM_NODES", "3"}};
  CHECK_THAT(taken({}, batch).use.hint, Contains("srun --ntasks-per-node=1 ddprun"));
  CHECK(taken({"--nnodes=1"}, batch).use.hint.empty());
  CHECK(taken({"--standalone"}, batch).use.hint.empty());
}

TEST_CASE("the ports of a job come from its run id, below those that the kernel gives away") {
  CHECK(port_candidates("17.4.0", std::nullopt) == port_candidates("17.4.0", std::nullopt));
  CHECK(port_candidates("17.4.0", std::nullopt) != port_candidates("17.5.0", std::nullopt));
  for (int job = 0; job < 2000; ++job) {
    const auto ports = port_candidates(std::to_string(job) + ".0.0", std::nullopt);
    REQUIRE(ports.size() == 8);
    CHECK(ports.front() >= 20'000);
    CHECK(ports.back() < 29'400);
    CHECK(ports.front() % 8 == 0);
    for (std::size_t i = 1; i < ports.size(); ++i) CHECK(ports[i] == ports[0] + i);
  }
  using Ports = std::vector<std::uint16_t>;
  CHECK(port_candidates("x", PortBounds{65'533, 65'535}) == Ports{65'533, 65'534, 65'535});
  CHECK(port_candidates("x", PortBounds{7, 7}) == Ports{7});
  const auto bounded = port_candidates("x", PortBounds{40'000, 40'020});
  CHECK(bounded.size() == 8);
  CHECK((bounded.front() == 40'000 || bounded.front() == 40'008));
}
