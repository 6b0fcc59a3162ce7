// Jobs that meet over etcd, as they are typed for torchrun.
#include <catch2/catch.hpp>

#include "launcher/plan/dry_run.hpp"
#include "launcher/plan/plan.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using rdzv::HostingWish;

namespace {

/// Its jobs have a secret, so that they are not warned about it.
Machine secret_machine() {
  Machine machine;
  machine.with("HOME", "/home/u").with_secret("/home/u/.config/ddprun/secret", "0123456789abcdef");
  return machine;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("several nodes meet over etcd, below a prefix") {
  const auto meeting = [](const Words& more) {
    const auto plan = planned(joined({"--nnodes=2", "--rdzv-id=j"}, more), secret_machine());
    CHECK(plan.warnings.empty());
    return *plan.agent.rendezvous;
  };
  for (const std::string backend : {"etcd", "etcd-v2"}) {
    const auto settings = meeting({"--rdzv-backend=" + backend, "--rdzv-endpoint=e"});
    REQUIRE(settings.etcd.has_value());
    CHECK(settings.etcd->members == std::vector{Endpoint("e", 2379)});
    CHECK(settings.etcd->prefix == "ddprun");
    CHECK(settings.hosting == HostingWish::not_host);
    CHECK(settings.may_host);
  }
  const auto settings =
      meeting({"--rdzv-backend=etcd", "--rdzv-endpoint=a:1,b,[::1]:3",
               "--rdzv-conf=protocol=http,etcd_prefix=/torchelastic/p2p/,is_host=0"});
  CHECK(settings.etcd->members ==
        std::vector{Endpoint("a", 1), Endpoint("b", 2379), Endpoint("::1", 3)});
  CHECK(settings.etcd->prefix == "torchelastic/p2p");
  CHECK_FALSE(settings.may_host);
}

TEST_CASE("what is wrong about a job over etcd is refused or told before it starts") {
  const Words over{"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=etcd"};
  CHECK_THAT(refused_plan(over), Contains("--rdzv-endpoint=HOST:2379"));
  const Words there = joined(over, {"--rdzv-endpoint=e:2379"});
  CHECK_THAT(refused_plan(joined(over, {"--rdzv-endpoint=e:0"})), Contains("etcd has no port 0"));
  CHECK_THAT(refused_plan(joined(there, {"--rdzv-conf=protocol=https"})),
             Contains("protocol=https is not supported"));
  CHECK_THAT(refused_plan(joined(there, {"--rdzv-conf=etcd_prefix=a b"})), Contains("blanks"));
  CHECK_THAT(refused_plan(joined(there, {"--chaos=1,service=10"})), Contains("with etcd"));
  const auto warned = [&](const Words& more) {
    return planned(joined(there, more), secret_machine()).warnings;
  };
  CHECK_THAT(warned({"--rdzv-conf=is_host=1"}).at(0), Contains("is_host=1 has no effect"));
  CHECK_THAT(warned({"--rdzv-conf=ca_cert=/x"}).at(0), Contains("without effect here: ca_cert"));
  CHECK_THAT(warned({"--master-port=7"}).at(0),
             Contains("have no effect with --rdzv-backend=etcd"));
  CHECK_THAT(warned({"--node-rank=2"}).at(0), Contains("has no effect"));
  CHECK_THAT(planned({"--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=e"}, secret_machine())
                 .warnings.at(0),
             Contains("no --rdzv-id is given"));
}

TEST_CASE("the first node of a step of Slurm does not become a member of etcd") {
  Machine machine;
  machine.environment.merge(slurm_step(0));
  CHECK_THAT(refused_plan({"--rdzv-backend=etcd"}, machine), Contains("--rdzv-endpoint=HOST:2379"));
  const auto plan = planned({"--rdzv-backend=etcd", "--rdzv-endpoint=e"}, machine);
  CHECK(plan.agent.rendezvous->etcd->members == std::vector{Endpoint("e", 2379)});
  CHECK(plan.agent.rendezvous->more_ports.empty());
  CHECK(plan.agent.run_id == "17.4.0");
}

TEST_CASE("a dry run shows which etcd it is and where the job's keys are") {
  const auto plan = planned({"--dry-run", "--nnodes=2", "--rdzv-backend=etcd",
                             "--rdzv-endpoint=a,b", "--rdzv-id=j/1", "--rdzv-conf=etcd_prefix=/x"},
                            secret_machine());
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("etcd://a:2379,b:2379/x\n") &&
                 Contains("one of the job's first three agents; its address stands in etcd, below "
                          "x/runs/j%2F1\n"));
  CHECK_THAT(dry_run_json(plan, {}), Contains("\"etcd_prefix\": \"x\"") && Contains("\"b:2379\"") &&
                                         Contains("\"hosted_here\": null"));
}
