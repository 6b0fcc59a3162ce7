#include "agent/workers/worker_environment.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <map>

#include "machine/processes/exec_error.hpp"

using namespace ddprun;

namespace {

agent::AgentConfig two_workers() {
  agent::AgentConfig config;
  config.run_id = "run7";
  config.node.role = "trainer";
  config.workers.resize(2);
  config.run_directory = "/tmp/x";
  config.stop.signals = {SIGTERM, SIGINT};
  return config;
}

proto::Round second_node() {
  proto::Round round;
  round.epoch = 2;
  round.number = 3;
  round.group_rank = 1;
  round.group_world_size = 2;
  round.first_rank = 4;
  round.world_size = 6;
  round.first_role_rank = 1;
  round.role_world_size = 3;
  round.restart_count = 2;
  round.max_restarts = 5;
  round.master_addr = "10.0.0.1";
  round.master_port = 4242;
  return round;
}

std::map<std::string, std::string> of(const agent::AgentConfig& config, const proto::Round& round,
                                      int local_rank,
                                      const std::vector<std::string>& inherited = {}) {
  const auto pairs =
      agent::worker_environment(config, round, round, local_rank, "@ddprun/0/run7", inherited);
  std::map<std::string, std::string> map(pairs.begin(), pairs.end());
  CHECK(map.size() == pairs.size());  // no name twice
  return map;
}

}  // namespace

TEST_CASE("if the number of nodes may change a worker is told how many workers there may be") {
  agent::AgentConfig config = two_workers();
  CHECK_FALSE(of(config, second_node(), 1).contains("DDPRUN_MAX_WORLD_SIZE"));
  config.job.min_nodes = 2;
  config.job.max_nodes = 5;
  CHECK(of(config, second_node(), 1)["DDPRUN_MAX_WORLD_SIZE"] == "10");
  config.job.max_nodes = 3;  // the others have more
  proto::Round round = second_node();
  round.world_size = 9;
  CHECK(of(config, round, 1)["DDPRUN_MAX_WORLD_SIZE"] == "9");
}

TEST_CASE("a worker gets torchrun's whole contract") {
  const std::map<std::string, std::string> expected{
      {"LOCAL_RANK", "1"},
      {"RANK", "5"},
      {"GROUP_RANK", "1"},
      {"ROLE_RANK", "2"},
      {"ROLE_NAME", "trainer"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"WORLD_SIZE", "6"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_WORLD_SIZE", "3"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "4242"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "5"},
      {"TORCHELASTIC_RUN_ID", "run7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/x/round_3_local_rank_1_error.json"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"},
      {"DDPRUN_ROUND", "3"},
      {"DDPRUN_EPOCH", "2"},
      {"DDPRUN_PROGRESS_FILE", "/tmp/x/round_3_local_rank_1_progress"},
      {"DDPRUN_SOCKET", "@ddprun/0/run7"},
      {"PYTHONBREAKPOINT", "rank 5 does not stop here: it has no stdin (ddprun --stdin=all)"},
  };
  CHECK(of(two_workers(), second_node(), 1) == expected);
}

TEST_CASE("breakpoint() stops ranks that have stdin, or where the user wants another debugger") {
  agent::AgentConfig config = two_workers();
  CHECK(of(config, second_node(), 0).count("PYTHONBREAKPOINT") == 0);
  CHECK(of(config, second_node(), 1, {"PYTHONBREAKPOINT=web_pdb.set_trace"})
            .count("PYTHONBREAKPOINT") == 0);
  for (const auto mode : {agent::StdinMode::all, agent::StdinMode::none}) {
    config.streams.standard_input = mode;
    CHECK(of(config, second_node(), 1).count("PYTHONBREAKPOINT") == 0);
  }
}

TEST_CASE("variables of the user stay where torchrun leaves them") {
  const auto set = of(two_workers(), second_node(), 0, {"TORCH_NCCL_ASYNC_ERROR_HANDLING=0"});
  CHECK(set.count("TORCH_NCCL_ASYNC_ERROR_HANDLING") == 0);
}

TEST_CASE("OMP_NUM_THREADS, PYTHONUNBUFFERED and the devices are set only if the plan has them") {
  agent::AgentConfig config = two_workers();
  CHECK(of(config, second_node(), 0).count("OMP_NUM_THREADS") == 0);
  CHECK(of(config, second_node(), 0).count("PYTHONUNBUFFERED") == 0);
  CHECK(of(config, second_node(), 0).count("CUDA_VISIBLE_DEVICES") == 0);
  config.workers[1].omp_threads = 3;
  config.environment.python_unbuffered = true;
  config.workers[1].visible_devices = "3";
  auto set = of(config, second_node(), 1);
  CHECK(set["OMP_NUM_THREADS"] == "3");
  CHECK(set["PYTHONUNBUFFERED"] == "1");
  CHECK(set["CUDA_VISIBLE_DEVICES"] == "3");
}

TEST_CASE("without a run directory there is no error file") {
  agent::AgentConfig config = two_workers();
  config.run_directory.clear();
  CHECK(of(config, second_node(), 0)["TORCHELASTIC_ERROR_FILE"].empty());
}

TEST_CASE("a log folder holds the error files too where torchrun puts them") {
  agent::AgentConfig config = two_workers();
  config.logs.folder = "/logs/run7_ab12cd";
  CHECK(of(config, second_node(), 1)["TORCHELASTIC_ERROR_FILE"] ==
        "/logs/run7_ab12cd/attempt_2/1/error.json");
}

TEST_CASE("the signals that end the job replace an inherited list") {
  const auto set = of(two_workers(), second_node(), 0, {"TORCHELASTIC_SIGNALS_TO_HANDLE=SIGHUP"});
  CHECK(set.at("TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM,SIGINT");
}

TEST_CASE("with virtual local ranks every worker gets LOCAL_RANK 0") {
  agent::AgentConfig config = two_workers();
  config.environment.virtual_local_rank = true;
  const auto set = of(config, second_node(), 1);
  CHECK(set.at("LOCAL_RANK") == "0");
  CHECK(set.at("RANK") == "5");
  CHECK(set.at("LOCAL_WORLD_SIZE") == "2");
}

TEST_CASE("a store of rank 0 is not announced as the agent's") {
  agent::AgentConfig config = two_workers();
  config.store.in_agent = false;
  CHECK(of(config, second_node(), 0).at("TORCHELASTIC_USE_AGENT_STORE") == "False");
}

TEST_CASE("merging replaces set variables and keeps all others in order") {
  const auto merged =
      agent::merge_environment({"A=1", "RANK=9", "ODD", "B=x=y"}, {{"RANK", "0"}, {"NEW", "n"}});
  CHECK(merged == std::vector<std::string>{"A=1", "ODD", "B=x=y", "RANK=0", "NEW=n"});
}

TEST_CASE("a file that cannot be executed is explained by its first line") {
  CHECK(machine::explain_by_first_line(ENOENT, "#!/no/such/python -u") ==
        "interpreter /no/such/python does not exist; fix the #! line");
  CHECK(machine::explain_by_first_line(ENOENT, "#! /bin/sh\r") ==
        "its lines end in CR LF, so /bin/sh is not found; convert it (dos2unix)");
  CHECK(machine::explain_by_first_line(ENOENT,
                                       "\x7f"
                                       "ELF...") ==
        "its dynamic loader is missing: it was built for another system (musl or glibc, or another "
        "architecture)");
  CHECK(machine::explain_by_first_line(ENOEXEC, "echo hello") ==
        "not an executable format, and no #! line: add #!/bin/sh, or #!/usr/bin/env python3, as "
        "its first line");
  CHECK(machine::explain_by_first_line(ENOEXEC,
                                       "\x7f"
                                       "ELF...") ==
        "it is damaged, or was built for another kind of machine");
  CHECK(machine::explain_by_first_line(EACCES, "#!/bin/sh").empty());
  CHECK(machine::explain_by_first_line(ENOENT, "#!") ==
        "interpreter  does not exist; fix the #! line");
  CHECK(machine::explain_exec_error(ENOENT, "/no/such/file").empty());
  CHECK(machine::explain_exec_error(EAGAIN, "/bin/sh") ==
        "the limit of processes is reached; raise it (ulimit -u, pids.max)");
}
