// The command lines and variables with which people start jobs of several nodes under torchrun.
#include <catch2/catch.hpp>

#include "launcher/plan/plan.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using rdzv::HostingWish;

TEST_CASE("static command lines with a node rank meet at the master's address and port") {
  for (const int rank : {0, 1}) {
    const auto plan =
        planned({"--nnodes=2", "--nproc-per-node=8", "--node-rank=" + std::to_string(rank),
                 "--master-addr=node1", "--master-port=29500"});
    CHECK(plan.agent.workers.size() == 8);
    CHECK(plan.agent.store.master_addr == "node1");
    CHECK(plan.agent.store.master_port == 29500);
    CHECK(plan.agent.rendezvous->endpoint == Endpoint("node1", 29500));
    CHECK(plan.agent.rendezvous->node_rank == rank);
    CHECK(plan.agent.rendezvous->hosting ==
          (rank == 0 ? HostingWish::rank0 : HostingWish::other_rank));
  }
}

TEST_CASE("command lines of torch.distributed.launch meet the same way") {
  const auto plan = planned(
      {"--nnodes", "2", "--node_rank", "0", "--master_addr", "10.0.0.1", "--master_port", "1234"});
  CHECK(plan.agent.rendezvous->endpoint == Endpoint("10.0.0.1", 1234));
  CHECK(plan.agent.rendezvous->one_port);
}

TEST_CASE("one c10d line for all nodes needs no rank") {
  const auto plan = planned({"--nnodes=2", "--nproc-per-node=8", "--rdzv-id=100",
                             "--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400"});
  CHECK(plan.agent.run_id == "100");
  CHECK(plan.agent.rendezvous->endpoint == Endpoint("node1", 29400));
  CHECK(plan.agent.rendezvous->hosting == HostingWish::automatic);
  CHECK(plan.agent.job.min_nodes == 2);
}

TEST_CASE("an elastic c10d line has a range of nodes and restarts") {
  const auto job = planned({"--nnodes=1:4", "--max-restarts=3", "--rdzv-id=100",
                            "--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400"})
                       .agent.job;
  CHECK(job.min_nodes == 1);
  CHECK(job.max_nodes == 4);
  CHECK(job.restart.max_restarts == 3);
}

TEST_CASE("a Slurm batch script's c10d line works with a number as its run id") {
  Machine machine;
  machine.with("SLURM_NNODES", "2").with("SLURM_STEP_NUM_NODES", "2").with("SLURM_NODEID", "1");
  for (const std::string host : {"10.0.0.1", "node1"}) {
    const auto plan = planned({"--nnodes", "2", "--nproc_per_node", "8", "--rdzv_id", "21437",
                               "--rdzv_backend", "c10d", "--rdzv_endpoint", host + ":29500"},
                              machine);
    CHECK(plan.agent.run_id == "21437");
    CHECK(plan.agent.rendezvous->endpoint == Endpoint(host, 29500));
  }
}

TEST_CASE("a rank that srun's shell expands is used, and one of the batch script is refused") {
  Machine machine;
  machine.with("SLURM_STEP_NUM_NODES", "2").with("SLURM_NODEID", "1").with("SLURM_PROCID", "1");
  const auto words = [](const std::string& rank) {
    return Words{"--nnodes=2", "--node_rank=" + rank, "--master_addr=node1"};
  };
  CHECK(planned(words("1"), machine).agent.rendezvous->node_rank == 1);
  CHECK_THAT(refused_plan(words("0"), machine),
             StartsWith("--node_rank=0, but this is Slurm's node 1"));
  // c10d does without ranks, and the service gives one to each node.
  Words dynamic = words("0");
  dynamic.insert(dynamic.end(), {"--rdzv-backend=c10d", "--rdzv-endpoint=node1"});
  CHECK(planned(dynamic, machine).agent.rendezvous->node_rank == 0);
}

TEST_CASE("the variables of Kubeflow's TrainJob are a static job") {
  Machine machine;
  machine.with("PET_NNODES", "2")
      .with("PET_NPROC_PER_NODE", "2")
      .with("PET_NODE_RANK", "1")
      .with("PET_MASTER_ADDR", "job-node-0-0.job")
      .with("PET_MASTER_PORT", "29400");
  const auto plan = planned({}, machine);
  CHECK(plan.agent.workers.size() == 2);
  CHECK(plan.agent.rendezvous->endpoint == Endpoint("job-node-0-0.job", 29400));
  CHECK(plan.agent.rendezvous->node_rank == 1);
  CHECK(plan.agent.rendezvous->insists_on_rank);
  CHECK(plan.agent.store.master_addr == "job-node-0-0.job");
  CHECK(machine.resolved.empty());
  CHECK(plan.warnings.empty());
  machine.with("PET_NODE_RANK", "2");
  CHECK(refused_plan({}, machine) == "PET_NODE_RANK=2: with PET_NNODES=2 node ranks are 0 to 1");
}

TEST_CASE("the variables of Kubeflow's elastic PyTorchJob are a c10d job") {
  Machine machine;
  machine.with("PET_RDZV_BACKEND", "c10d")
      .with("PET_RDZV_ENDPOINT", "job-worker-0:23456")
      .with("PET_NNODES", "1:3")
      .with("PET_RDZV_ID", "job")
      .with("PET_RDZV_CONF", "last_call_timeout=5,join_timeout=120")
      .with("PET_MAX_RESTARTS", "100")
      .with("MASTER_ADDR", "job-worker-0")
      .with("MASTER_PORT", "23456");
  const auto plan = planned({}, machine);
  CHECK(plan.agent.run_id == "job");
  CHECK(plan.agent.rendezvous->endpoint == Endpoint("job-worker-0", 23456));
  CHECK(plan.agent.rendezvous->hosting == HostingWish::automatic);
  CHECK(plan.agent.job.min_nodes == 1);
  CHECK(plan.agent.job.max_nodes == 3);
  CHECK(plan.agent.job.restart.max_restarts == 100);
  CHECK(plan.agent.job.last_call == 5s);
  CHECK(plan.agent.job.join_timeout == 120s);
}

TEST_CASE("the variables of Kubeflow's other PyTorchJob are a static job at MASTER_ADDR") {
  Machine machine;
  machine.with("PET_NNODES", "2")
      .with("PET_NODE_RANK", "1")
      .with("MASTER_ADDR", "job-master-0")
      .with("MASTER_PORT", "23456");
  const auto plan = planned({}, machine);
  CHECK(plan.agent.rendezvous->endpoint == Endpoint("job-master-0", 23456));
  CHECK(plan.agent.rendezvous->node_rank == 1);
  CHECK(plan.agent.store.master_port == 23456);
  CHECK(planned({"--master-addr=other"}, machine).agent.store.master_addr == "other");
}

TEST_CASE("a step of Slurm needs no option: its first node serves at the first free of 8 ports") {
  for (const int rank : {0, 1}) {
    Machine machine;
    machine.environment.merge(slurm_step(rank));
    const auto plan = planned({}, machine);
    REQUIRE(plan.agent.rendezvous.has_value());
    const auto& meeting = *plan.agent.rendezvous;
    CHECK(meeting.endpoint.host == "n2");
    CHECK(meeting.more_ports.size() == 7);
    CHECK(meeting.more_ports.front() == *meeting.endpoint.port + 1);
    CHECK(meeting.hosting == (rank == 0 ? HostingWish::first_host : HostingWish::other_rank));
    CHECK(meeting.node_rank == rank);
    CHECK_FALSE(meeting.insists_on_rank);
    CHECK(plan.agent.run_id == "17.4.0");
    CHECK(plan.agent.job.max_nodes == 2);
    CHECK(planned({"--rdzv-conf=is_host=1"}, machine).agent.rendezvous->hosting ==
          HostingWish::is_host);
    CHECK(planned({"--rdzv-endpoint=n2:7"}, machine).agent.rendezvous->more_ports.empty());
  }
}

TEST_CASE("a script of sbatch without srun is told what to type, and runs on its node") {
  Machine machine;
  machine.with("SLURM_JOB_ID", "17").with("SLURM_JOB_NUM_NODES", "3").with("SLURM_NODEID", "0");
  const auto plan = planned({}, machine);
  CHECK_FALSE(plan.agent.rendezvous.has_value());
  REQUIRE(plan.notes.size() == 1);
  CHECK_THAT(plan.notes.front(), Contains("srun --ntasks-per-node=1 ddprun ..."));
}

TEST_CASE("two agents of one machine meet on loopback without a warning") {
  for (const Words& words :
       {Words{"--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1"},
        {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29400"}}) {
    CHECK(planned(words).warnings.empty());
  }
}

TEST_CASE("the usual settings of a rendezvous get their effect") {
  const auto plan =
      planned({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1",
               "--rdzv-conf=is_host=0,join_timeout=60,last_call_timeout=5,keep_alive_interval=1,"
               "keep_alive_max_attempt=3,timeout=900"});
  CHECK(plan.agent.rendezvous->hosting == HostingWish::not_host);
  CHECK(plan.agent.rendezvous->lease == 3s);
  CHECK(plan.agent.job.join_timeout == 60s);
  CHECK(plan.agent.job.last_call == 5s);
  CHECK(plan.warnings.empty());
}

TEST_CASE("a node that was started through ssh gives its launcher up soon after the lease") {
  const auto lost_timeout = [](const Words& words) {
    const Machine machine;
    auto options = parse_launch_options(words, machine.environment);
    REQUIRE(options.has_value());
    options->rendezvous.endpoint = Endpoint("head", 1);
    options->ssh_node = SshNode{};
    return make_plan(*options, machine.environment, machine.probes())
        .value()
        .agent.rendezvous->lost_timeout;
  };
  CHECK(lost_timeout({"t.py"}) == 30s);
  CHECK(lost_timeout({"--rdzv-conf=keep_alive_interval=20,keep_alive_max_attempt=3", "t.py"}) ==
        75s);
  CHECK(lost_timeout({"--rdzv-conf=lost_timeout=4", "t.py"}) == 4s);
}
