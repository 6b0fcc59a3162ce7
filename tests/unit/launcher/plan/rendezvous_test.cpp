// Where the nodes of a job meet: rules, and what is refused.
#include <catch2/catch.hpp>

#include "launcher/plan/plan.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using rdzv::HostingWish;

namespace {

const std::string kSecret = "0123456789abcdef0123456789abcdef";

/// Its jobs have a secret, so that they are not warned about it.
Machine with_secret() {
  Machine machine;
  machine.with("HOME", "/home/u").with_secret("/home/u/.config/ddprun/secret", kSecret);
  return machine;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kStatic = {"--nnodes=2", "--node-rank=1", "--master-addr=node1"};
const Words kDynamic = {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1"};

agent::RendezvousSettings static_meeting(const Words& more, const Machine& machine = {}) {
  return *planned(with(kStatic, more), machine).agent.rendezvous;
}

agent::RendezvousSettings dynamic_meeting(const Words& more, const Machine& machine = {}) {
  return *planned(with(kDynamic, more), machine).agent.rendezvous;
}

}  // namespace

TEST_CASE("one node has no rendezvous, whatever is said about one") {
  for (const Words& words :
       {Words{}, {"--rdzv-backend=c10d", "--rdzv-endpoint=10.0.0.1:5"}, {"--nnodes=1:1"}}) {
    const auto plan = planned(words);
    CHECK_FALSE(plan.agent.rendezvous.has_value());
    CHECK_FALSE(plan.warden.has_lease);
    CHECK(plan.agent.run_id == "fresh-id");
    CHECK(plan.agent.job.max_nodes == 1);
  }
  CHECK(planned({"--rdzv-auth=required"}).warnings.empty());
}

TEST_CASE("nodes agree on a run id without an option") {
  CHECK(planned(kStatic).agent.run_id == "none");
  CHECK(planned(with(kStatic, {"--rdzv-id=job"})).agent.run_id == "job");
  CHECK(planned(kDynamic).agent.run_id == "none");
}

TEST_CASE("a job of several nodes has a lease, a kernel's identity and maybe a report") {
  const auto plan = planned(kStatic);
  CHECK(plan.warden.has_lease);
  CHECK(plan.agent.node.boot_id == "boot-1");
  CHECK_FALSE(plan.agent.report.wanted);
  CHECK(planned(with(kStatic, {"--report=r.json"})).agent.report.wanted);
  CHECK(plan.agent.store.host.empty());
}

TEST_CASE("in a static job rank 0 serves and the workers' store is at the same port") {
  const auto plan = planned(kStatic);
  const auto& meeting = *plan.agent.rendezvous;
  CHECK(meeting.endpoint == Endpoint("node1", 29500));
  CHECK(meeting.hosting == HostingWish::other_rank);
  CHECK(meeting.node_rank == 1);
  CHECK(meeting.insists_on_rank);
  CHECK(meeting.one_port);
  CHECK(plan.agent.store.master_addr == "node1");
  CHECK(plan.agent.store.master_port == 29500);
  CHECK(static_meeting({"--node-rank=0"}).hosting == HostingWish::rank0);
  CHECK(static_meeting({"--master-port=1234"}).endpoint.port == 1234);
}

TEST_CASE("a static job takes a missing rank for 0 as torchrun does") {
  const auto meeting = *planned({"--nnodes=2", "--master-addr=node1"}).agent.rendezvous;
  CHECK(meeting.node_rank == 0);
  CHECK(meeting.hosting == HostingWish::rank0_by_default);
}

TEST_CASE("an endpoint wins over a master address and lends it its port") {
  CHECK(static_meeting({"--rdzv-endpoint=node2:7000", "--master-port=1"}).endpoint ==
        Endpoint("node2", 7000));
  CHECK(static_meeting({"--rdzv-endpoint=node2", "--master-port=7"}).endpoint ==
        Endpoint("node2", 7));
  CHECK(static_meeting({"--rdzv-endpoint=[::2]"}).endpoint == Endpoint("::2", 29500));
  CHECK(static_meeting({"--master-addr=[::1]"}).endpoint == Endpoint("::1", 29500));
}

TEST_CASE("where a worker serves the store the nodes meet one port higher") {
  const auto plan = planned(with(kStatic, {"--worker-store=rank0", "--master-port=3000"}));
  CHECK(plan.agent.rendezvous->endpoint.port == 3001);
  CHECK_FALSE(plan.agent.rendezvous->one_port);
  CHECK(plan.agent.store.master_port == 3000);
  CHECK_FALSE(plan.agent.store.in_agent);
  CHECK_THAT(refused_plan(with(kStatic, {"--worker-store=rank0", "--master-port=65535"})),
             StartsWith("--worker-store=rank0: ") && EndsWith("give another --master-port"));
}

TEST_CASE("nodes without an address are told the command lines to type") {
  const auto plan = plan_of({"--nnodes=2:3"}, {});
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().message ==
        "--nnodes=2:3: the nodes need an address where they meet; type on each node");
  CHECK(plan.error().more ==
        "\n"
        "  ddprun --nnodes=2:3 --node-rank=N --master-addr=HOST true ...\n"
        "where N is 0 on HOST, then 1, 2, ...; or the same line on each node, where HOST is one "
        "of them\n"
        "  ddprun --nnodes=2:3 --rdzv-backend=c10d --rdzv-endpoint=HOST true ...");
  const auto known = plan_of({"--nnodes=2"}, Machine().with("MASTER_ADDR", "job-master-0"));
  REQUIRE_FALSE(known.has_value());
  CHECK_THAT(known.error().more, Contains("--nnodes=2 --node-rank=N --master-addr=$MASTER_ADDR "));
}

TEST_CASE("a master address with a port, or that is none, is refused") {
  CHECK(refused_plan({"--nnodes=2", "--master-addr=10.0.0.1:1234"}) ==
        "--master-addr=10.0.0.1:1234: expected a host; type --master-addr=10.0.0.1 "
        "--master-port=1234");
  CHECK_THAT(refused_plan({"--nnodes=2", "--master-addr=tcp://a"}),
             StartsWith("--master-addr=tcp://a: ") && EndsWith("; expected a host"));
}

TEST_CASE("a run id that messages cannot carry as it is is refused where there are several nodes") {
  const std::string longest(255, 'x');
  CHECK(planned(with(kDynamic, {"--rdzv-id=" + longest})).agent.run_id == longest);
  CHECK(refused_plan(with(kDynamic, {"--rdzv-id=x" + longest})) ==
        "--rdzv-id has 256 bytes; it may have at most 255");
  CHECK_THAT(refused_plan(with(kDynamic, {"--rdzv-id=a\xff"})),
             EndsWith(": nodes can only agree on UTF-8 text"));
  CHECK(planned({"--rdzv-id=a\xff"}).agent.run_id == "a\xff");
}

TEST_CASE("several nodes need a port that they know") {
  CHECK(refused_plan({"--nnodes=2", "--master-addr=node1", "--master-port=0"}) ==
        "node1:0: several nodes need a port that all of them know, not 0");
  CHECK_THAT(refused_plan(with(kDynamic, {"--rdzv-endpoint=node1:0"})), StartsWith("node1:0: "));
  CHECK_THAT(refused_plan(with(kStatic, {"--worker-store=rank0", "--master-port=0"})),
             StartsWith("node1:0: "));
}

TEST_CASE("a rank that the job does not have is refused where ranks count") {
  CHECK(refused_plan(with(kStatic, {"--node-rank=2"})) ==
        "--node-rank=2: with --nnodes=2 node ranks are 0 to 1");
  CHECK_THAT(refused_plan(with(kStatic, {"--node-rank=5"}), Machine().with("SLURM_PROCID", "5")),
             StartsWith("--node-rank=5: with --nnodes=2 node ranks are 0 to 1; under Slurm type "
                        "srun --ntasks-per-node=1 ddprun ... without --node-rank"));
  const auto plan = planned(with(kDynamic, {"--node-rank=2"}), with_secret());
  CHECK_FALSE(plan.agent.rendezvous->node_rank.has_value());
  CHECK(plan.warnings ==
        Words{"--node-rank=2 has no effect: with --nnodes=2 node ranks are 0 to 1"});
}

TEST_CASE("rank 0 on another node of a Slurm job than the address names is refused") {
  Machine machine;
  machine.with("SLURM_STEP_NUM_NODES", "2").with("SLURM_NODEID", "1");
  CHECK_THAT(refused_plan({"--nnodes=2", "--master-addr=node1"}, machine),
             StartsWith("--node-rank is missing, but this is Slurm's node 1, and node1 is not an "
                        "address of it; under Slurm type srun --ntasks-per-node=1 ddprun ..."));
  CHECK_THAT(refused_plan({"--nnodes=2", "--node-rank=0", "--master-addr=later"}, machine),
             StartsWith("--node-rank=0, but this is Slurm's node 1, and later is not"));
  CHECK(machine.limits.back() == 0s);
  CHECK(planned(kStatic, machine).agent.rendezvous->node_rank == 1);

  machine.hosts["node1"] = "10.0.0.7";
  CHECK(planned({"--nnodes=2", "--master-addr=node1"}, machine).agent.rendezvous->node_rank == 0);
  machine.hosts.clear();
  machine.with("SLURM_STEP_NUM_NODES", "1").with("SLURM_NNODES", "2");
  CHECK(planned({"--nnodes=2", "--master-addr=node1"}, machine).agent.rendezvous->node_rank == 0);
}

TEST_CASE("in a c10d job the endpoint is all that the nodes share") {
  const auto plan = planned(kDynamic, with_secret());
  const auto& meeting = *plan.agent.rendezvous;
  CHECK(meeting.endpoint == Endpoint("node1", 29400));
  CHECK(meeting.hosting == HostingWish::automatic);
  CHECK_FALSE(meeting.one_port);
  CHECK_FALSE(meeting.node_rank.has_value());
  CHECK_FALSE(meeting.insists_on_rank);
  CHECK(plan.agent.store.master_addr.empty());
  CHECK(plan.agent.store.master_port == 0);
  CHECK(plan.warnings.empty());
  CHECK(dynamic_meeting({"--rdzv-endpoint=[::1]:5"}).endpoint == Endpoint("::1", 5));
  CHECK(dynamic_meeting({"--node-rank=1"}).node_rank == 1);
  CHECK_FALSE(dynamic_meeting({"--node-rank=1"}).insists_on_rank);
}

TEST_CASE("several endpoints are those of several rdzvd, and no agent serves there") {
  const auto meeting = dynamic_meeting({"--rdzv-endpoint=a:1,b, [::1]:3,a:1"});
  CHECK(meeting.endpoint == Endpoint("a", 1));
  CHECK(meeting.more_endpoints == std::vector<Endpoint>{{"b", 29400}, {"::1", 3}});
  CHECK(meeting.hosting == HostingWish::several_rdzvd);
  CHECK(dynamic_meeting({"--rdzv-endpoint=a"}).more_endpoints.empty());
  CHECK_THAT(refused_plan({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a,b:0"}),
             Contains("b:0"));
}

TEST_CASE("is_host says whether this node serves the endpoint of a c10d job") {
  CHECK(dynamic_meeting({"--rdzv-conf=is_host=1"}).hosting == HostingWish::is_host);
  CHECK(dynamic_meeting({"--rdzv-conf=is_host=false"}).hosting == HostingWish::not_host);
}

TEST_CASE("a master address has no effect beside an endpoint of c10d, and that is said once") {
  const auto plan = planned(with(kDynamic, {"--master-addr=a", "--master-port=1"}), with_secret());
  CHECK(plan.warnings ==
        Words{"--master-addr and --master-port have no effect with --rdzv-backend=c10d: the node "
              "of group rank 0 chooses them"});
  CHECK(plan.agent.store.master_addr.empty());
}

TEST_CASE("the address that stands for all of a machine is no place to meet") {
  CHECK_THAT(refused_plan(with(kStatic, {"--master-addr=0.0.0.0"})),
             StartsWith("0.0.0.0:29500 leads every node to itself"));
  CHECK_THAT(refused_plan(with(kDynamic, {"--rdzv-endpoint=[::]:7"})), StartsWith("[::]:7 leads"));
}

TEST_CASE("an endpoint on loopback that was typed causes no warning") {
  CHECK(planned({"--nnodes=2", "--master-addr=127.0.0.1"}).warnings.empty());
  for (const std::string host : {"localhost", "127.0.1.1", "[::1]"})
    CHECK(planned(with(kDynamic, {"--rdzv-endpoint=" + host})).warnings.empty());
}

TEST_CASE("a c10d job without an endpoint meets on this machine and is told what to type") {
  CHECK(planned({"--nnodes=2", "--rdzv-backend=c10d"}).warnings ==
        Words{"no --rdzv-endpoint is given, so the rendezvous is at localhost:29400 and only "
              "agents on this machine can join; name one of the machines: --rdzv-endpoint=HOST"});
}

TEST_CASE("an endpoint on loopback is refused in a Slurm job of several nodes") {
  const auto refusal = [](const std::string& variable) {
    return refused_plan({"--nnodes=2", "--rdzv-backend=c10d"}, Machine().with(variable, "2"));
  };
  for (const std::string variable : {"SLURM_NNODES", "SLURM_STEP_NUM_NODES"}) {
    CHECK_THAT(refusal(variable),
               StartsWith("localhost:29400: each node of this Slurm job would meet only itself") &&
                   Contains("--rdzv-endpoint=HOST"));
  }
  // A step on one node of a larger job.
  Machine step;
  step.with("SLURM_NNODES", "2").with("SLURM_STEP_NUM_NODES", "1");
  CHECK(planned({"--nnodes=2", "--rdzv-backend=c10d"}, step).warnings.size() == 1);
}

TEST_CASE("a standalone job has one node even if it may have more") {
  const auto plan = planned({"--standalone", "--nnodes=1:4"});
  CHECK_FALSE(plan.agent.rendezvous.has_value());
  CHECK(plan.agent.run_id == "fresh-id");
  CHECK(plan.agent.job.max_nodes == 1);
  CHECK(plan.warnings == Words{"--nnodes is ignored because of --standalone"});
  CHECK(refused_plan({"--standalone", "--nnodes=2"}) ==
        "--nnodes=2 and --standalone exclude each other: a standalone job has one node; leave one "
        "out");
}

TEST_CASE("the address of this node for the others is numeric from the start") {
  const Machine machine = with_secret();
  CHECK(dynamic_meeting({"--local-addr=10.0.0.9"}, machine).own.addr == "10.0.0.9");
  CHECK(dynamic_meeting({"--local-addr=[fd00::1]"}, machine).own.addr == "fd00::1");
  CHECK(machine.resolved.empty());
  CHECK(dynamic_meeting({"--local-addr=node1"}, machine).own.addr == "10.0.0.1");
  CHECK(dynamic_meeting({"--local-addr=node1"}, machine).own.typed_addr == "node1");
  CHECK(dynamic_meeting({}, machine).own.addr.empty());
  CHECK_THAT(refused_plan(with(kDynamic, {"--local-addr=nowhere"}), machine),
             StartsWith("--local-addr=nowhere does not resolve to an address; "));
  CHECK_THAT(refused_plan(with(kDynamic, {"--local-addr=10.0.0.1:5"}), machine),
             EndsWith("expected a host without a port"));
  CHECK(planned(with(kDynamic, {"--local-addr=127.0.1.1"}), machine).warnings ==
        Words{"--local-addr=127.0.1.1: other machines cannot reach this node there"});
}

TEST_CASE("names of the meeting point are left to the agent, which may wait for them") {
  const Machine machine;
  planned({"--nnodes=2", "--master-addr=later"}, machine);
  planned({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=later"}, machine);
  CHECK(machine.resolved.empty());
}

TEST_CASE("times and limits of the job are torchrun's unless they are given") {
  const auto plan = planned(kStatic);
  CHECK(plan.agent.job.min_nodes == 2);
  CHECK(plan.agent.job.max_nodes == 2);
  CHECK(plan.agent.job.join_timeout == 600s);
  CHECK(plan.agent.job.last_call == 30s);
  CHECK(plan.agent.job.grow_delay == std::chrono::nanoseconds(5s));
  CHECK(plan.agent.job.failing_nodes_step_back);
  CHECK_FALSE(plan.agent.job.max_node_changes.has_value());
  CHECK(plan.agent.rendezvous->lease == 15s);
  CHECK(plan.agent.rendezvous->lost_timeout == 300s);
  const auto given = planned(with(kStatic, {"--max-node-changes=4", "--grow-delay=never"}));
  CHECK(given.agent.job.max_node_changes == 4);
  CHECK_FALSE(given.agent.job.grow_delay.has_value());
}

TEST_CASE("of the two names of the join time-out the more exact one wins") {
  const auto join_timeout = [](const std::string& conf) {
    return planned(with(kDynamic, {"--rdzv-conf=" + conf})).agent.job.join_timeout;
  };
  CHECK(join_timeout("timeout=900") == 900s);
  CHECK(join_timeout("join_timeout=60") == 60s);
  CHECK(join_timeout("join_timeout=60,timeout=900") == 60s);
}

TEST_CASE("all nodes of a job get the same settings from the same command") {
  const Words words = {"--nnodes=1:3", "--max-restarts=3", "--rdzv-backend=c10d",
                       "--rdzv-endpoint=node1", "--rdzv-conf=timeout=60,is_host=0"};
  Machine other;
  other.hosts["node1"] = "10.0.0.7";
  CHECK(planned(words, with_secret()).agent.job == planned(words, other).agent.job);
  CHECK(planned(kStatic).agent.job == planned(with(kStatic, {"--node-rank=0"})).agent.job);
}

TEST_CASE("a lease that is too short is refused only where there is one") {
  const std::string conf = "--rdzv-conf=keep_alive_interval=0.1";
  CHECK_THAT(refused_plan(with(kStatic, {conf})), Contains("expected 1 s or more"));
  CHECK(planned({conf}).warnings.empty());
}

TEST_CASE("settings of other services cause one warning") {
  CHECK(planned(with(kDynamic, {"--rdzv-conf=protocol=https,cacert=/a,timeout=9"}), with_secret())
            .warnings == Words{"--rdzv-conf: without effect here: protocol, cacert"});
}

TEST_CASE("the ports that may be chosen are the agent's, with one node too") {
  for (const Words& words : {Words{}, kStatic}) {
    const auto ports = planned(with(words, {"--port-range=20000:20100"})).agent.store.ports;
    REQUIRE(ports.has_value());
    CHECK(ports->first == 20000);
    CHECK(ports->last == 20100);
  }
  CHECK_FALSE(planned({}).agent.store.ports.has_value());
}

TEST_CASE("the secret lies where the option says, else among the user's settings") {
  const auto path = [](const std::string& file, const Environment& environment) {
    LaunchOptions options;
    options.rendezvous.secret_file = file;
    return secret_path(options, environment);
  };
  CHECK(path("here", {{"HOME", "/h"}}) == "here");
  CHECK(path("", {{"HOME", "/h"}}) == "/h/.config/ddprun/secret");
  CHECK(path("", {{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}}) == "/x/ddprun/secret");
  CHECK(path("", {{"HOME", "/h"}, {"XDG_CONFIG_HOME", "x"}}) == "/h/.config/ddprun/secret");
  CHECK(path("", {{"HOME", "/h"}, {"XDG_CONFIG_HOME", ""}}) == "/h/.config/ddprun/secret");
  CHECK(path("", {}).empty());
  CHECK(path("", {{"HOME", ""}}).empty());
}

TEST_CASE("a secret that is found is used, and demanded of others on request") {
  CHECK(static_meeting({}, with_secret()).secret == kSecret);
  CHECK_FALSE(static_meeting({}, with_secret()).needs_proof);
  CHECK(static_meeting({"--rdzv-auth=required"}, with_secret()).needs_proof);
  const auto other = Machine().with_secret("/s", kSecret).with("DDPRUN_SECRET_FILE", "/s");
  CHECK(static_meeting({}, other).secret == kSecret);
  CHECK(static_meeting({}).secret.empty());
}

TEST_CASE("a secret that cannot be used is an error, also where no option asks for one") {
  CHECK(refused_plan(with(kStatic, {"--rdzv-secret-file=/none"})) ==
        "cannot read the secret file /none");
  Machine unreadable;
  unreadable.with("HOME", "/h").files.text("/h/.config/ddprun/secret");
  CHECK_THAT(refused_plan(kStatic, unreadable), Contains("/h/.config/ddprun/secret"));
  Machine dangling;
  dangling.with("HOME", "/h").files.dangling("/h/.config/ddprun/secret", "/gone");
  CHECK_THAT(refused_plan(kStatic, dangling), Contains("/h/.config/ddprun/secret"));
  CHECK(planned({}, dangling).warnings.empty());
}

TEST_CASE("a secret that is required and missing is refused with how to make one") {
  CHECK(refused_plan(with(kStatic, {"--rdzv-auth=required"}), Machine().with("HOME", "/h")) ==
        "--rdzv-auth=required: there is no secret in /h/.config/ddprun/secret; make one with "
        "ddprun --make-secret and copy it to each node");
  CHECK_THAT(refused_plan(with(kStatic, {"--rdzv-auth=required"})),
             StartsWith("--rdzv-auth=required: there is no secret; make one"));
}
