// Which variables go to the hosts; and the plan of a launch.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "launcher/ssh/ssh_launch.hpp"

using namespace ddprun::launcher;
using Words = std::vector<std::string>;

namespace {

const Environment kEnvironment = {
    {"PATH", "/bin"},      {"HOME", "/me"},         {"NCCL_DEBUG", "INFO"}, {"SECRET", "x"},
    {"MY_A", "1"},         {"MY_B", "2"},           {"SLURM_NNODES", "4"},  {"PYTHONPATH", "/p"},
    {"DDPRUN_SSH", "ssh"}, {"DDPRUN_SOCKET", "@s"}, {"HOSTNAME", "head"},   {"SSH_AUTH_SOCK", "/s"},
};

Words passed(std::string_view pass_env) {
  const auto taken = passed_environment(kEnvironment, pass_env);
  return taken ? *taken : Words{"! " + taken.error().message};
}

SshFacts facts() {
  SshFacts facts;
  facts.command = {"ddprun", "x"};
  facts.folder = "/work";
  facts.own_path = "/opt/ddprun";
  facts.random = "77";
  facts.secret = "s";
  facts.new_run_id = "new";
  facts.read_file = [](const std::string& path) -> boost::system::result<std::string, std::string> {
    if (path == "hosts.txt") return {boost::system::in_place_value, "a slots=2\nb slots=4\n"};
    return {boost::system::in_place_error, "No such file or directory"};
  };
  return facts;
}

LaunchResult<SshLaunch> launch(const Words& words, const Environment& environment = kEnvironment) {
  const auto options = parse_launch_options(words, environment);
  if (!options) return options.error();
  return make_ssh_launch(*options, environment, facts());
}

std::string refusal(const Words& words, const Environment& environment = kEnvironment) {
  const auto made = launch(words, environment);
  return made ? "" : made.error().message;
}

}  // namespace

TEST_CASE("what finds programs and configures training is passed, and what a person adds") {
  const Words usual{"NCCL_DEBUG=INFO", "PATH=/bin", "PYTHONPATH=/p"};
  CHECK(passed("") == usual);
  CHECK(passed("MY_A") == Words{"MY_A=1", "NCCL_DEBUG=INFO", "PATH=/bin", "PYTHONPATH=/p"});
  CHECK(passed("MY_*, NEW=a=b,PATH=/x,MISSING") ==
        Words{"MY_A=1", "MY_B=2", "NCCL_DEBUG=INFO", "NEW=a=b", "PATH=/x", "PYTHONPATH=/p"});
  for (const char* wrong : {"=x", "1A", "A B", "*A", "A*=1", "a-b"})
    CHECK(passed(wrong)[0].starts_with("! --pass-env: "));
}

TEST_CASE("the documentation lists the variables that are always passed") {
  std::ifstream file(DDPRUN_SOURCE "/docs/ssh.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const std::string_view name : passed_by_default()) {
    INFO(name);
    CHECK(text.str().find("`" + std::string(name) + "`") != std::string::npos);
  }
}

TEST_CASE("a launch has a plan for each host") {
  const auto made = launch({"--hosts=a,b[1-2]:4", "--rdzv-id=job", "train.py"});
  REQUIRE(made.has_value());
  CHECK(made->plan.min_nodes == 3);
  CHECK(made->plan.max_nodes == 3);
  const NodePlan plan = plan_for(*made, 2);
  CHECK(plan.host == "b2");
  CHECK(plan.rank == 2);
  CHECK(plan.slots == 4);
  CHECK(plan.run_id == "job");
  CHECK(plan.folder == "/work");
  CHECK(plan.socket != plan_for(*made, 1).socket);
  CHECK(plan_for(*made, 0).slots == 0);
  CHECK(launch({"--hostfile=hosts.txt", "t.py"})->hosts[1].slots == 4);
  CHECK(launch({"--hosts=a,b,c", "--nnodes=1:2", "t.py"})->plan.min_nodes == 1);
}

TEST_CASE("options that --hosts decides are refused beside it") {
  CHECK(refusal({"--hosts=a", "--hostfile=f", "t.py"}).find("exclude each other") !=
        std::string::npos);
  for (const char* option : {"--node-rank=1", "--standalone", "--rdzv-endpoint=x",
                             "--rdzv-backend=c10d", "--master-addr=x", "--local-addr=x",
                             "--rdzv-auth=required", "--rdzv-tls", "--rdzv-tls-ca=x"}) {
    INFO(option);
    CHECK(refusal({"--hosts=a,b", "--nnodes=2", option, "t.py"}).find("exclude each other") !=
          std::string::npos);
  }
  CHECK(refusal({"--hosts=a,b", "t.py"}, {{"PET_RDZV_ENDPOINT", "x"}})
            .starts_with("PET_RDZV_ENDPOINT=x and --hosts exclude each other"));
  CHECK(refusal({"--hosts=a,b", "--nnodes=3", "t.py"}) ==
        "--nnodes=3: --hosts=a,b names 2 hosts; name more, or leave --nnodes out");
  CHECK(refusal({"--hostfile=missing", "t.py"}) == "--hostfile=missing: No such file or directory");
  CHECK(refusal({"--hosts=a", "--ssh=ssh 'x", "t.py"}).find("not closed") != std::string::npos);
}

TEST_CASE("a scheduler around the launcher changes nothing") {
  const Environment slurm{{"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_NTASKS", "4"},
                          {"OMPI_COMM_WORLD_RANK", "1"}};
  const auto made = launch({"--hosts=a,b", "t.py"}, slurm);
  REQUIRE(made.has_value());
  CHECK(made->plan.max_nodes == 2);
  CHECK(made->plan.environment.empty());
}

TEST_CASE("on its host a node takes what it was told in place of the launcher's options") {
  const auto options =
      parse_launch_options({"--hosts=a,b:4", "--report=r.json", "t.py"}, kEnvironment);
  REQUIRE(options.has_value());
  auto plan = plan_for(*make_ssh_launch(*options, kEnvironment, facts()), 1);
  plan.launcher = "head:4711";
  const LaunchOptions node = options_on_node(*options, plan, "10.0.0.2");
  CHECK(node.hosts.spelling.empty());
  CHECK(node.nodes.count.max == 2);
  CHECK(node.nodes.rank == 1);
  CHECK(node.workers.processes.number == 4);
  CHECK(node.rendezvous.endpoint->host == "head");
  REQUIRE(node.ssh_node);
  CHECK(node.ssh_node->addr == "10.0.0.2");
  CHECK(node.ssh_node->name == "b");
  CHECK(node.output.standard_input == StdinMode::none);
  // A host beyond --nnodes is a spare.
  plan.rank = 5;
  CHECK_FALSE(options_on_node(*options, plan, "10.0.0.2").nodes.rank);
}
