#include "launcher/plan/dry_run.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/transcript.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using namespace std::chrono_literals;
using agent::StreamMode;
using Catch::Matchers::Contains;

namespace {

LaunchPlan small_plan() {
  LaunchPlan plan;
  plan.program = {.kind = ProgramChoice::Kind::python_script,
                  .name = "t.py",
                  .file = "/usr/bin/python3",
                  .argv = {"/usr/bin/python3", "-u", "t.py", "it's", "${local_rank}"},
                  .python = "/usr/bin/python3",
                  .reason = "a Python file by its name"};
  plan.agent.workers.resize(2);
  plan.agent.workers[0].visible_devices = "0,1";
  for (std::size_t i = 0; i < 2; ++i) {
    agent::WorkerSettings& worker = plan.agent.workers[i];
    worker.argv = {"/usr/bin/python3", "-u", "t.py", "it's", std::to_string(i)};
    worker.standard_output.mode = StreamMode::pty;
    worker.standard_error = {StreamMode::pipe, true, true};
  }
  plan.devices.chosen = {"0", "1"};
  plan.devices.source = "NVML";
  plan.agent.streams.standard_input = StdinMode::none;
  plan.log_folder = {.wanted = true, .base = "/logs"};
  plan.agent.run_id = "id-7";
  plan.agent.store.master_addr = "localhost";
  plan.agent.store.host = "127.0.0.1";
  plan.warnings = {"a warning"};
  plan.notes = {"a note"};
  plan.agent.start_note = "a note for the start";
  return plan;
}

proto::RestartSettings restarts(const Words& arguments) {
  return planned(arguments, Machine{}).agent.job.restart;
}

void check_text(const LaunchPlan& plan, const std::string& state = "",
                const RankZeroEnvironment& environment = {}) {
  ddprun::test::check_transcript("dry_run", state, dry_run_text(plan, environment));
}
void check_json(const LaunchPlan& plan, const std::string& state,
                const RankZeroEnvironment& environment = {}) {
  ddprun::test::check_transcript("dry_run", state, dry_run_json(plan, environment));
}

}  // namespace

TEST_CASE("the dry run shows control characters of names and values as in C") {
  auto plan = small_plan();
  plan.agent.run_id = "a\nb";
  plan.program.name = "t\x1b[31m.py";
  plan.program.argv = {"t\tx"};
  check_text(plan, "", {{"ROLE_NAME", "r\ns"}});
}

TEST_CASE("the dry run shows choice, command, workers, devices, environment and meeting point") {
  check_text(small_plan(), "", {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  auto plan = small_plan();
  for (const auto* id : {"none", "2026-11-28_17-15-33_0123abcd"}) {
    plan.agent.run_id = id;
    CHECK_THAT(dry_run_text(plan, {}), Contains(" /logs/(date and time)/attempt"));
  }
  plan.agent.store.master_port = 29500;
  plan.devices = {};
  plan.devices.cpu_job = true;
  check_text(plan, "a port and no GPUs");
}

TEST_CASE("the dry run shows what differs between workers: CPUs, threads, streams") {
  auto plan = small_plan();
  plan.agent.workers[0].cpus = {0, 1, 2, 5};
  plan.agent.workers[0].omp_threads = 4;
  plan.agent.workers[1].standard_output = {StreamMode::file, false, true};
  check_text(plan);
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["workers"][0]["cpus"] == std::vector<int>{0, 1, 2, 5});
  CHECK(json["workers"][0]["omp_threads"] == 4);
}

TEST_CASE("the dry run shows what bounds logs, silence and the end") {
  auto plan = small_plan();
  plan.agent.logs.rotation = {1'000'000, 3};
  plan.agent.logs.policy = agent::LogPolicy::block;
  plan.agent.watch.progress_timeout = 60s;
  plan.agent.watch.log_timeout = 2s;
  plan.agent.stop.kill_timeout = 500ms;
  plan.agent.job.restart = restarts({"--max-restarts=3"});
  check_text(plan, "all");
  check_json(plan, "JSON");
  plan.agent.watch.on_silence = agent::OnSilence::restart;
  check_text(plan, "all are silent");
  plan.agent.watch.kernel_timeout = 5min;
  check_text(plan, "a wait in the kernel");
  plan.agent.job.restart = restarts({"--max-restarts=3", "--restart-delay=0"});
  check_text(plan, "restarts without a wait");
  plan.agent.job.restart = restarts({"--max-restarts=3", "--restart-delay=2.5"});
  check_text(plan, "restarts with a wait");
  CHECK(nlohmann::json::parse(dry_run_json(plan, {}))["restart_delay_seconds"] == 2.5);
}

TEST_CASE("the dry run does not pretend to know a port that the kernel will choose") {
  auto plan = small_plan();
  CHECK_THAT(dry_run_text(plan, {{"MASTER_PORT", "0"}}), Contains("  MASTER_PORT=(a free port)\n"));
  plan.agent.store.master_port = 29500;
  CHECK_THAT(dry_run_text(plan, {{"MASTER_PORT", "29500"}}), Contains("  MASTER_PORT=29500\n"));
  for (const char* name : {"TORCHELASTIC_ERROR_FILE", "DDPRUN_PROGRESS_FILE", "DDPRUN_SOCKET"})
    CHECK_THAT(dry_run_text(plan, {{name, ""}}),
               Contains("  " + std::string(name) + "=(made at the start)\n"));
}

TEST_CASE("the dry run as JSON has the same contents") {
  check_json(small_plan(), "", {{"RANK", "0"}});
}

TEST_CASE("a dry run as JSON shows arguments that are not UTF-8 without failing") {
  auto plan = small_plan();
  plan.agent.workers[0].argv.emplace_back("\xff\xfe");
  CHECK(nlohmann::json::accept(dry_run_json(plan, {{"X", "\xc3"}})));
}

TEST_CASE("a dry run of several nodes shows how they meet, and invents no rank") {
  Machine machine;
  machine.hosts["node1"] = "10.0.0.7";
  const auto plan =
      planned({"--dry-run", "--nnodes=2:3", "--nproc-per-node=2", "--rdzv-backend=c10d",
               "--rdzv-endpoint=node1", "--rdzv-id=job", "--rdzv-conf=join_timeout=60"},
              machine);
  check_text(plan, "text",
             {{"RANK", "0"},
              {"LOCAL_RANK", "0"},
              {"WORLD_SIZE", "2"},
              {"MASTER_ADDR", ""},
              {"MASTER_PORT", "0"}});
  check_json(plan, "JSON", {{"RANK", "0"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "0"}});
}

TEST_CASE("a dry run of a static job shows what its command line fixes") {
  const auto check = [](const std::string& rank, const std::string& host,
                        const std::string& state) {
    Words words{"--dry-run", "--nnodes=2", "--master-addr=" + host};
    if (!rank.empty()) words.push_back("--node-rank=" + rank);
    check_text(planned(words), state, {{"GROUP_RANK", "0"}, {"MASTER_PORT", "29500"}});
  };
  check("1", "node1", "rank 1");
  check("0", "node1", "rank 0 on another machine");
  check("", "node1", "no rank");
  check("0", "later", "a name that does not resolve");
}

TEST_CASE("a dry run of a c10d job names is_host, not an option that was not given") {
  const auto check = [](const char* is_host) {
    check_text(planned({"--dry-run", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1",
                        is_host}),
               is_host);
  };
  check("--rdzv-conf=is_host=1");
  check("--rdzv-conf=is_host=0");
}

TEST_CASE("a dry run tells when a job that may grow does so") {
  check_text(planned({"--dry-run", "--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1",
                      "--grow-delay=never"}));
}

TEST_CASE("a dry run tells that there is a secret, and never which") {
  const std::string secret = "0123456789abcdef";
  const auto machine = Machine().with("HOME", "/h").with_secret("/h/.config/ddprun/secret", secret);
  for (const std::string auth : {"auto", "required"}) {
    const auto plan = planned({"--dry-run", "--nnodes=2", "--rdzv-backend=c10d",
                               "--rdzv-endpoint=node1", "--rdzv-auth=" + auth},
                              machine);
    check_text(plan, auth);
    check_json(plan, auth + ", JSON");
    CHECK_THAT(dry_run_text(plan, {}), !Contains(secret));
    CHECK_THAT(dry_run_json(plan, {}), !Contains(secret));
  }
}

TEST_CASE("a dry run shows what the scheduler has said, and from where") {
  Machine machine;
  machine.environment.merge(slurm_step(1));
  const auto plan = planned({"--dry-run", "--rdzv-id=mine"}, machine);
  check_text(plan, "text");
  check_json(plan, "JSON");
  CHECK_FALSE(nlohmann::json::parse(dry_run_json(planned({}), {})).contains("cluster"));
}

TEST_CASE("a dry run tells the check of the node") {
  const auto plan =
      planned({"--preflight=dcgmi diag -r 1", "--preflight-timeout=90", "t.py"}, Machine{});
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("preflight    dcgmi diag -r 1 (at most 1 min 30 s)\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["preflight"]["command"] == "dcgmi diag -r 1");
  CHECK(json["preflight"]["timeout_seconds"] == 90.0);
}

TEST_CASE("a dry run tells the faults of --chaos") {
  const auto plan = planned(
      {"--chaos=7,kill=30s,delay=10s/500ms,faults=20", "--max-restarts=9", "t.py"}, Machine{});
  CHECK(plan.warnings.empty());
  check_text(plan);
}

TEST_CASE("a dry run tells the faults of the rendezvous, which needs several nodes") {
  check_text(planned({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:29400",
                      "--chaos=7,service=30s,partition=1m/5s", "t.py"},
                     Machine{}));
}
