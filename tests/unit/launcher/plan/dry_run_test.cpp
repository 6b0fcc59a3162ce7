#include "launcher/plan/dry_run.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

}  // namespace

TEST_CASE("the dry run shows control characters of names and values as in C") {
  auto plan = small_plan();
  plan.agent.run_id = "a\nb";
  plan.program.name = "t\x1b[31m.py";
  plan.program.argv = {"t\tx"};
  const std::string text = dry_run_text(plan, {{"ROLE_NAME", "r\ns"}});
  for (const std::string part :
       {"run id       a\\nb\n", "program      t\\x1b[31m.py\n", "command      't\\tx'\n",
        "  ROLE_NAME=r\\ns\n", "/logs/(date and time)_a\\nb/"}) {
    CHECK_THAT(text, Contains(part));
  }
}

TEST_CASE("the dry run shows choice, command, workers, devices, environment and meeting point") {
  const std::string text = dry_run_text(small_plan(), {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  for (const std::string part :
       {"chosen as    a Python file by its name\n", "executes     /usr/bin/python3\n",
        "command      /usr/bin/python3 -u t.py 'it'\\''s' '${local_rank}'\n", "workers      2\n",
        "  rank 0 (local rank 0)  CUDA_VISIBLE_DEVICES=0,1  /usr/bin/python3 -u t.py 'it'\\''s' "
        "0\n",
        "  rank 1 (local rank 1)  /usr/bin/python3 -u t.py 'it'\\''s' 1\n",
        "GPUs         0,1 (NVML)\n", "stdout       pty\n",
        "stderr       pipe, shown and to stderr.log\n", "stdin        none\n",
        "logs         /logs/(date and time)_id-7/attempt_(restarts)/(local rank)/\n",
        "run id       id-7\n", "store        localhost, a free port, served by ddprun\n",
        "containment  tree\n", "  WORLD_SIZE=2\n", "warning      a warning\n",
        "note         a note\n"}) {
    CHECK_THAT(text, Contains(part));
  }
  auto plan = small_plan();
  for (const auto* id : {"none", "2026-11-28_17-15-33_0123abcd"}) {
    plan.agent.run_id = id;
    CHECK_THAT(dry_run_text(plan, {}), Contains(" /logs/(date and time)/attempt"));
  }
  plan.agent.store.master_port = 29500;
  plan.devices = {};
  plan.devices.cpu_job = true;
  CHECK_THAT(dry_run_text(plan, {}), Contains("localhost, port 29500, served by ddprun\n") &&
                                         Contains("GPUs         none, because of"));
}

TEST_CASE("the dry run shows what differs between workers: CPUs, threads, streams") {
  auto plan = small_plan();
  plan.agent.workers[0].cpus = {0, 1, 2, 5};
  plan.agent.workers[0].omp_threads = 4;
  plan.agent.workers[1].standard_output = {StreamMode::file, false, true};
  const std::string text = dry_run_text(plan, {});
  CHECK_THAT(text, Contains("OMP_NUM_THREADS=4  CPUs 0-2,5"));
  CHECK_THAT(text, Contains("stdout       local rank 0: pty\n"));
  CHECK_THAT(text, Contains("stdout       local rank 1: stdout.log only\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["workers"][0]["cpus"] == std::vector<int>{0, 1, 2, 5});
  CHECK(json["workers"][0]["omp_threads"] == 4);
}

TEST_CASE("the dry run shows what bounds logs, silence and the end") {
  auto plan = small_plan();
  CHECK_THAT(
      dry_run_text(plan, {}),
      Contains("log limits   slow reader: the workers wait, unless it is a terminal or stuck "
               "for 30 s\n") &&
          Contains("hangs        detection off (see --progress-timeout)\n") &&
          Contains("restarts     none\n") && Contains("kill timeout 10 s\n"));
  plan.agent.logs.rotation = {1'000'000, 3};
  plan.agent.logs.policy = agent::LogPolicy::block;
  plan.agent.watch.progress_timeout = 60s;
  plan.agent.watch.log_timeout = 2s;
  plan.agent.stop.kill_timeout = 500ms;
  plan.agent.job.restart = restarts({"--max-restarts=3"});
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("log limits   a new file after 1000000 bytes, 3 older kept; slow "
                      "reader: the workers wait\n") &&
                 Contains("hangs        no progress for 1 min 0 s, or no output for 2.0 s\n") &&
                 Contains("restarts     at most 3; waits 0 s, 1 s, 2 s ... up to 30 s\n") &&
                 Contains("kill timeout 0.5 s\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["logs"]["policy"] == "block");
  CHECK(json["logs"]["max_size_bytes"] == 1'000'000);
  CHECK(json["logs"]["keep"] == 3);
  CHECK(json["progress_timeout_seconds"] == 60.0);
  CHECK(json["log_timeout_seconds"] == 2.0);
  CHECK(json["on_silence"] == "report");
  CHECK(json["uninterruptible_timeout_seconds"] == 0.0);
  CHECK(json["kill_timeout_seconds"] == 0.5);
  CHECK(json["restart_delay_seconds"] == "auto");
  plan.agent.watch.on_silence = agent::OnSilence::restart;
  CHECK_THAT(dry_run_text(plan, {}), Contains(", or no output of any worker for 2.0 s\n"));
  plan.agent.watch.kernel_timeout = 5min;
  CHECK_THAT(dry_run_text(plan, {}),
             Contains(" for 2.0 s, or one wait in the kernel for 5 min 0 s\n"));
  plan.agent.job.restart = restarts({"--max-restarts=3", "--restart-delay=0"});
  CHECK_THAT(dry_run_text(plan, {}), Contains("restarts     at most 3; never waits\n"));
  plan.agent.job.restart = restarts({"--max-restarts=3", "--restart-delay=2.5"});
  CHECK_THAT(dry_run_text(plan, {}), Contains("; waits 0 s, 2.5 s, 5 s ... up to 60 s\n"));
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
  const auto json = nlohmann::json::parse(dry_run_json(small_plan(), {{"RANK", "0"}}));
  CHECK(json["program"]["kind"] == "python_script");
  CHECK(json["program"]["file"] == "/usr/bin/python3");
  CHECK(json["workers"].size() == 2);
  CHECK(json["workers"][1]["argv"][4] == "1");
  CHECK(json["workers"][0]["cuda_visible_devices"] == "0,1");
  CHECK(json["workers"][1]["cuda_visible_devices"].is_null());
  CHECK(json["gpus"]["chosen"] == std::vector<std::string>{"0", "1"});
  CHECK(json["workers"][0]["stdout"]["transport"] == "pty");
  CHECK(json["workers"][1]["stderr"]["to_file"] == true);
  CHECK(json["stdin"] == "none");
  CHECK(json["logs"]["base"] == "/logs");
  CHECK(json["store"]["port"] == 0);
  CHECK(json["run_id"] == "id-7");
  CHECK(json["environment"]["RANK"] == "0");
  CHECK(json["grace_period_seconds"] == 30.0);
  CHECK(json["containment"] == "tree");
  CHECK(json["warnings"][0] == "a warning");
  CHECK(json["notes"][0] == "a note");
  CHECK(json["notes"][1] == "a note for the start");
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
  const std::string text = dry_run_text(plan, {{"RANK", "0"},
                                               {"LOCAL_RANK", "0"},
                                               {"WORLD_SIZE", "2"},
                                               {"MASTER_ADDR", ""},
                                               {"MASTER_PORT", "0"}});
  for (const std::string part :
       {"run id       job\n", "nodes        2 to 3\n", "rendezvous   node1:29400\n",
        "hosted by    this node: node1 (10.0.0.7) is an address of this machine\n",
        "secret       none\n",
        "waits        1 min 0 s for a round to form, 30.0 s for more nodes once 2 are there\n",
        "lost         a node after 15.0 s of silence, the rendezvous after 5 min 0 s\n",
        "grows        5.0 s after a new node\n", "  local rank 1  OMP_NUM_THREADS=1\n",
        "store        the node of group rank 0, a free port, served by ddprun\n",
        "environment of local rank 0, in addition to", "  RANK=(known when the round forms)\n",
        "  LOCAL_RANK=0\n", "  WORLD_SIZE=(known when the round forms)\n",
        "  MASTER_ADDR=(known when the round forms)\n",
        "  MASTER_PORT=(known when the round forms)\n"}) {
    CHECK_THAT(text, Contains(part));
  }
  const auto json = nlohmann::json::parse(
      dry_run_json(plan, {{"RANK", "0"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "0"}}));
  const auto& meeting = json["rendezvous"];
  CHECK(meeting["min_nodes"] == 2);
  CHECK(meeting["max_nodes"] == 3);
  CHECK(meeting["node_rank"].is_null());
  CHECK(meeting["endpoint"] == "node1:29400");
  CHECK(meeting["hosted_here"] == true);
  CHECK(meeting["secret"] == false);
  CHECK(meeting["auth"] == "auto");
  CHECK(meeting["join_timeout_seconds"] == 60.0);
  CHECK(meeting["lease_seconds"] == 15.0);
  CHECK(meeting["lost_timeout_seconds"] == 300.0);
  CHECK(meeting["grow_delay_seconds"] == 5.0);
  CHECK(meeting["max_node_changes"].is_null());
  CHECK(json["workers"][1]["rank"].is_null());
  CHECK(json["workers"][1]["local_rank"] == 1);
  CHECK(json["environment"]["RANK"].is_null());
  CHECK(json["environment"]["LOCAL_RANK"] == "1");
  CHECK(json["environment"]["MASTER_PORT"].is_null());
}

TEST_CASE("a dry run of a static job shows what its command line fixes") {
  const auto text_of = [](const std::string& rank, const std::string& host) {
    Words words{"--dry-run", "--nnodes=2", "--master-addr=" + host};
    if (!rank.empty()) words.push_back("--node-rank=" + rank);
    const auto plan = planned(words);
    return dry_run_text(plan, {{"GROUP_RANK", "0"}, {"MASTER_PORT", "29500"}});
  };
  CHECK_THAT(text_of("1", "node1"), Contains("nodes        2; this one has node rank 1\n") &&
                                        Contains("hosted by    the node with rank 0\n") &&
                                        Contains("store        node1, port 29500, served by") &&
                                        Contains("  GROUP_RANK=(known when the round forms)\n") &&
                                        Contains("  MASTER_PORT=29500\n") &&
                                        Contains("waits        10 min 0 s for a round to form\n") &&
                                        !Contains("\ngrows "));
  CHECK_THAT(
      text_of("0", "node1"),
      Contains("hosted by    this node: --node-rank=0 says so, though node1 (10.0.0.1) is not an "
               "address of this machine\n"));
  CHECK_THAT(text_of("", "node1"),
             Contains("hosted by    this node: no --node-rank is given, so this is node rank 0; "
                      "but node1 (10.0.0.1) is not an address of this machine: give the other "
                      "machines --node-rank=1, 2, ...\n"));
  CHECK_THAT(text_of("0", "later"),
             Contains("hosted by    not known: later does not resolve now\n"));
}

TEST_CASE("a dry run of a c10d job names is_host, not an option that was not given") {
  const auto text_of = [](const char* is_host) {
    return dry_run_text(planned({"--dry-run", "--nnodes=2", "--rdzv-backend=c10d",
                                 "--rdzv-endpoint=node1", is_host}),
                        {});
  };
  CHECK_THAT(text_of("--rdzv-conf=is_host=1"),
             Contains("hosted by    this node: is_host=1 says so, though node1 (10.0.0.1) is not "
                      "an address of this machine\n"));
  CHECK_THAT(text_of("--rdzv-conf=is_host=0"),
             Contains("hosted by    another machine: is_host=0 leaves it to another node\n"));
}

TEST_CASE("a dry run tells when a job that may grow does so") {
  CHECK_THAT(dry_run_text(planned({"--dry-run", "--nnodes=1:2", "--rdzv-backend=c10d",
                                   "--rdzv-endpoint=node1", "--grow-delay=never"}),
                          {}),
             Contains("for a round to form, 30.0 s for more nodes once one is there\n") &&
                 Contains("grows        never\n"));
}

TEST_CASE("a dry run tells that there is a secret, and never which") {
  const std::string secret = "0123456789abcdef";
  const auto machine = Machine().with("HOME", "/h").with_secret("/h/.config/ddprun/secret", secret);
  const auto plan_with = [&](const std::string& auth) {
    return planned({"--dry-run", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1",
                    "--rdzv-auth=" + auth},
                   machine);
  };
  const std::string text = dry_run_text(plan_with("auto"), {});
  CHECK_THAT(
      text, Contains("secret       used, if the serving side has one, too\n") && !Contains(secret));
  CHECK_THAT(text, Contains("hosted by    another machine: node1 (10.0.0.1) is not an address"));
  CHECK_THAT(dry_run_text(plan_with("required"), {}),
             Contains("secret       used, and required of the others\n"));
  const std::string json = dry_run_json(plan_with("required"), {});
  CHECK_THAT(json, !Contains(secret));
  CHECK(nlohmann::json::parse(json)["rendezvous"]["secret"] == true);
  CHECK(nlohmann::json::parse(json)["rendezvous"]["hosted_here"] == false);
}

TEST_CASE("a dry run shows what the scheduler has said, and from where") {
  Machine machine;
  machine.environment.merge(slurm_step(1));
  const auto plan = planned({"--dry-run", "--rdzv-id=mine"}, machine);
  const std::string text = dry_run_text(plan, {});
  CHECK_THAT(text, Contains("cluster      Slurm: --nnodes=2 (SLURM_STEP_NUM_NODES), --node-rank=1 "
                            "(SLURM_NODEID), --rdzv-endpoint=n2:") &&
                       Contains(" (SLURM_STEP_NODELIST), --grace-period=25 (") &&
                       Contains(", the first port that is free\n") &&
                       Contains("hosted by    the node with rank 0\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["cluster"]["scheduler"] == "Slurm");
  CHECK(json["cluster"]["values"][0]["option"] == "--nnodes");
  CHECK(json["cluster"]["values"][0]["value"] == "2");
  CHECK(json["cluster"]["values"][0]["from"] == "SLURM_STEP_NUM_NODES");
  CHECK(json["rendezvous"]["more_ports"].size() == 7);
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
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("chaos        seed 7; kill a worker about every 30.0 s; delay a worker about "
                      "every 10.0 s, for 500 ms; 20 faults\n"));
}

TEST_CASE("a dry run tells the faults of the rendezvous, which needs several nodes") {
  const std::vector<std::string> several{"--nnodes=2", "--rdzv-backend=c10d",
                                         "--rdzv-endpoint=127.0.0.1:29400",
                                         "--chaos=7,service=30s,partition=1m/5s", "t.py"};
  CHECK_THAT(dry_run_text(planned(several, Machine{}), {}),
             Contains("chaos        seed 7; kill the rendezvous about every 30.0 s; cut a node "
                      "from the rendezvous about every 1 min 0 s, for 5.0 s\n"));
}
