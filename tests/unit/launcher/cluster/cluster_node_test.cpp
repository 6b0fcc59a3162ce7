// What each scheduler says about a node, by its variables.
#include <catch2/catch.hpp>
#include <string>

#include "launcher/cluster/cluster_node.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"

using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

ClusterNode found(const Environment& environment) {
  const auto node = cluster_node(environment);
  if (!node) FAIL(node.error().message);
  return *node;
}

std::string problem(const Environment& environment) {
  const auto node = cluster_node(environment);
  if (node) FAIL("was accepted");
  CHECK(node.error().exit_code == 2);
  return node.error().message;
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

}  // namespace

TEST_CASE("without a scheduler's variables there is no scheduler and no hint") {
  CHECK(found({}).scheduler.empty());
  CHECK(found({}).hint.empty());
}

TEST_CASE("a step of Slurm has its own nodes, not those of its job") {
  for (const int rank : {0, 1}) {
    const ClusterNode node = found(slurm_step(rank));
    CHECK(node.scheduler == "Slurm");
    CHECK(node.nodes->value == 2);
    CHECK(node.nodes->variable == "SLURM_STEP_NUM_NODES");
    CHECK(node.node_rank->value == rank);
    CHECK(node.first_host->value == "n2");
    CHECK(node.rank0_is_first_host);
    CHECK(node.run_id->value == "17.4.0");
    CHECK_FALSE(node.workers.has_value());
  }
  CHECK(found(with(slurm_step(0), "SLURM_RESTART_COUNT", "2")).run_id->value == "17.4.2");
}

TEST_CASE("a node of Slurm has a worker for each GPU that Slurm gives it") {
  CHECK(found(with(slurm_step(0), "SLURM_GPUS_ON_NODE", "8")).workers->value == 8);
  CHECK_FALSE(found(with(slurm_step(0), "SLURM_GPUS_ON_NODE", "0")).workers.has_value());
  CHECK_THAT(problem(with(slurm_step(0), "SLURM_GPUS_ON_NODE", "x")),
             StartsWith("SLURM_GPUS_ON_NODE=x: expected a number from 0; "));
}

TEST_CASE("several tasks of Slurm on a node are refused with what to type") {
  const std::string message = problem(with(slurm_step(0), "SLURM_STEP_NUM_TASKS", "8"));
  CHECK(message ==
        "Slurm has started 8 tasks on 2 nodes (SLURM_STEP_NUM_TASKS), but each ddprun starts all "
        "workers of its node; type: srun --ntasks-per-node=1 ddprun ..., or --standalone for jobs "
        "of one node each");
  Environment one = slurm_step(0);
  one["SLURM_STEP_NUM_NODES"] = "1";
  one["SLURM_STEP_NODELIST"] = "n2";
  CHECK_THAT(problem(with(one, "SLURM_STEP_NUM_TASKS", "4")), Contains("4 tasks on one node"));
  // A shell for which several cores were asked.
  one["SLURM_PTY_PORT"] = "33333";
  CHECK(found(with(one, "SLURM_STEP_NUM_TASKS", "4")).nodes->value == 1);
}

TEST_CASE("outside of a step there is a hint where the job of Slurm has several nodes") {
  const Environment batch = {{"SLURM_JOB_ID", "17"},       {"SLURM_JOB_NODELIST", "n[1-3]"},
                             {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_NODEID", "0"},
                             {"SLURM_PROCID", "0"},        {"SLURMD_NODENAME", "n1"},
                             {"SLURM_GPUS_ON_NODE", "8"},  {"SLURM_NNODES", "3"}};
  CHECK(found(batch).scheduler.empty());
  CHECK(found(batch).hint ==
        "this Slurm job has 3 nodes, and ddprun starts workers on this one only; for all of them "
        "type: srun --ntasks-per-node=1 ddprun ...");
  Environment one = with(batch, "SLURM_JOB_NUM_NODES", "1");
  CHECK(found(with(one, "SLURM_NNODES", "1")).hint.empty());
  // salloc's shell is a step of a special kind.
  Environment shell = slurm_step(0);
  shell["SLURM_STEP_ID"] = "4294967290";
  shell["SLURM_STEP_NUM_NODES"] = "1";
  CHECK(found(shell).scheduler.empty());
}

TEST_CASE("the step of a shell from which a job was submitted is not that job's") {
  Environment outer = slurm_step(0);
  outer["SLURM_STEP_NUM_NODES"] = outer["SLURM_STEP_NUM_TASKS"] = "1";
  outer["SLURM_STEP_NODELIST"] = "n7";
  CHECK(found(outer).scheduler.empty());
  CHECK_THAT(found(outer).hint, StartsWith("this Slurm job has 3 nodes"));
  CHECK(problem(with(slurm_step(0), "SLURMD_NODENAME", "n9")) ==
        "SLURM_NODEID=0 of SLURM_STEP_NODELIST=n[2-3] is not SLURMD_NODENAME=n9; are these "
        "variables of another job? Give --nnodes, --node-rank and --rdzv-endpoint, or --nnodes=1");
}

TEST_CASE("variables of Slurm that do not fit together are refused") {
  CHECK_THAT(
      problem(with(slurm_step(0), "SLURM_STEP_NODELIST", "n[2-3")),
      StartsWith("SLURM_STEP_NODELIST=n[2-3: character 2: '[' is not closed; give --nnodes"));
  CHECK_THAT(problem(without(slurm_step(0), "SLURM_STEP_NODELIST")),
             StartsWith("SLURM_STEP_NODELIST=: it names no host; "));
  CHECK_THAT(problem(with(slurm_step(0), "SLURM_STEP_NODELIST", "n[2-4]")),
             StartsWith("SLURM_STEP_NUM_NODES=2, but SLURM_STEP_NODELIST=n[2-4] names 3; "));
  CHECK_THAT(problem(with(slurm_step(0), "SLURM_STEP_NUM_NODES", "two")),
             StartsWith("SLURM_STEP_NUM_NODES=two: expected a number"));
  CHECK_THAT(problem(without(with(slurm_step(0), "SLURM_NODEID", "2"), "SLURMD_NODENAME")),
             StartsWith("SLURM_NODEID=2 of SLURM_STEP_NODELIST=n[2-3] is not in it; "));
  // Such a list must not fill the screen.
  const std::string long_list(100'000, 'x');
  CHECK(problem(with(slurm_step(0), "SLURM_STEP_NODELIST", long_list)).size() < 300);
}

TEST_CASE("mpirun gives the number of nodes and their ranks, but no address") {
  const ClusterNode node = found(open_mpi(1));
  CHECK(node.scheduler == "mpirun");
  CHECK(node.nodes->value == 2);
  CHECK(node.node_rank->value == 1);
  CHECK_FALSE(node.first_host.has_value());
  CHECK_FALSE(node.run_id.has_value());
  CHECK_THAT(node.endpoint_advice, StartsWith("--rdzv-endpoint=HOST"));
  CHECK(problem(with(open_mpi(1), "OMPI_COMM_WORLD_LOCAL_SIZE", "2")) ==
        "mpirun has started several processes on this node (OMPI_COMM_WORLD_LOCAL_SIZE=2), but "
        "each ddprun starts all workers of its node; type: mpirun --map-by ppr:1:node ddprun ...");
  CHECK(found(with(with(open_mpi(0), "OMPI_COMM_WORLD_SIZE", "1"), "PMIX_RANK", "0")).nodes ==
        std::nullopt);
  CHECK_THAT(problem(with(open_mpi(1), "OMPI_COMM_WORLD_RANK", "2")),
             StartsWith("OMPI_COMM_WORLD_RANK=2, but OMPI_COMM_WORLD_SIZE=2"));
}

TEST_CASE("mpirun within a job of Slurm wins over the step of its helper") {
  Environment both = slurm_step(0);
  both.merge(open_mpi(1));
  CHECK(found(both).scheduler == "mpirun");
  // srun sets PMI's variables itself.
  Environment step = slurm_step(1);
  step["PMI_RANK"] = "1";
  step["PMI_SIZE"] = "2";
  CHECK(found(step).scheduler == "Slurm");
}

TEST_CASE("other launchers of MPI and Flux are known by their variables") {
  const Environment pmi = {{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}};
  CHECK(found(pmi).scheduler == "the MPI launcher");
  CHECK(found(pmi).node_rank->value == 2);
  CHECK_THAT(problem(with(pmi, "PMI_LOCAL_RANK", "1")), Contains("(PMI_LOCAL_RANK=1)"));

  const Environment hydra = with(pmi, "MPI_LOCALRANKID", "0");
  CHECK(found(hydra).scheduler == "mpiexec");
  CHECK_THAT(problem(with(hydra, "MPI_LOCALNRANKS", "2")), EndsWith("mpiexec -ppn 1 ddprun ..."));

  Environment flux = {{"FLUX_JOB_SIZE", "3"},      {"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_ID", "f2x"},
                      {"FLUX_TASK_LOCAL_ID", "0"}, {"PMI_SIZE", "3"},       {"PMI_RANK", "1"}};
  CHECK(found(flux).scheduler == "flux run");
  CHECK(found(flux).run_id->value == "f2x");
  CHECK_THAT(problem(with(flux, "FLUX_TASK_LOCAL_ID", "1")),
             EndsWith("flux run --tasks-per-node=1 ddprun ..."));

  const ClusterNode pmix = found({{"PMIX_RANK", "1"}});
  CHECK(pmix.node_rank->value == 1);
  CHECK_FALSE(pmix.nodes.has_value());
}

TEST_CASE("pods have their index, and those of a JobSet the name of the first one") {
  const Environment pod = {{"JOB_COMPLETION_INDEX", "3"}, {"HOSTNAME", "train-3"}};
  CHECK(found(pod).scheduler == "Kubernetes");
  CHECK(found(pod).node_rank->value == 3);
  CHECK_FALSE(found(pod).nodes.has_value());
  CHECK_FALSE(found(pod).first_host.has_value());
  const Environment set = {
      {"JOB_COMPLETION_INDEX", "3"}, {"HOSTNAME", "train-workers-0-3"}, {"JOBSET_NAME", "train"}};
  CHECK(found(set).first_host->value == "train-workers-0-0.train");
  CHECK_FALSE(found(with(set, "HOSTNAME", "renamed")).first_host.has_value());
}

TEST_CASE("a PyTorchJob of Kubeflow has its address in MASTER_ADDR") {
  const Environment pod = {{"PET_NNODES", "2"},
                           {"PET_NODE_RANK", "1"},
                           {"MASTER_ADDR", "job-master-0"},
                           {"MASTER_PORT", "23456"}};
  CHECK(found(pod).first_host->value == "job-master-0");
  CHECK(found(pod).master_port->value == 23456);
  CHECK(found(without(pod, "MASTER_PORT")).master_port->value == 29500);
  CHECK_THAT(problem(with(pod, "MASTER_PORT", "x")), StartsWith("MASTER_PORT=x: expected a port"));
  CHECK(found(without(pod, "PET_NODE_RANK")).scheduler.empty());
}

TEST_CASE("a worker of another job has its scheduler's variables, but is not what that started") {
  for (const char* name : {"DDPRUN_SOCKET", "TORCHELASTIC_RUN_ID"}) {
    CHECK(found(with(slurm_step(0), name, "x")).scheduler.empty());
    CHECK(found(with(open_mpi(0), name, "x")).scheduler.empty());
  }
}

TEST_CASE("the process that has started ddprun is looked for by the names of its scheduler") {
  using Names = std::vector<std::string>;
  CHECK(scheduler_processes({}).empty());
  CHECK(scheduler_processes({{"SLURM_JOB_ID", "7"}}) == Names{"slurmstepd"});
  CHECK(scheduler_processes({{"PMI_RANK", "0"}}) == Names{"hydra_pmi_proxy"});
  CHECK(scheduler_processes({{"FLUX_TASK_RANK", "0"}}) == Names{"flux-shell"});
  // mpirun starts its helper on a node as a task of Slurm: the nearer one is found.
  CHECK(scheduler_processes({{"SLURM_JOB_ID", "7"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) ==
        Names{"slurmstepd", "orted", "prted"});
  CHECK(scheduler_processes({{"SLURM_JOB_ID", "7"}, {"TORCHELASTIC_RUN_ID", "x"}}).empty());
}
