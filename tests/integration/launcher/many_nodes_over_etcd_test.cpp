// Jobs that meet over etcd as under torchrun: which agent runs the rendezvous, what is left there,
// and what people are told of an etcd that cannot be used.
#include <filesystem>
#include <fstream>

#include "tests/integration/launcher/many_nodes_over_etcd.hpp"
#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/support/old_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

TEST_CASE("nodes meet over etcd without an rdzvd, and leave nothing there") {
  OverEtcd job;
  job.etcd.put("other", "kept");
  for (int i = 0; i < 4; ++i) job.add("4");
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  job.await_slot(3);
  CHECK(job.etcd.value("ddprun/runs/job/candidates/4").empty());
  [[maybe_unused]] const std::size_t leads = job.index_of(job.leader());  // fails if it has no slot
  job.open_gate();
  job.succeed();
  CHECK(job.etcd.keys() == std::vector<std::string>{"other"});
}

TEST_CASE("another agent leads when one does no more, and the workers do not notice") {
  OverEtcd job;
  for (int i = 0; i < 2; ++i) {
    job.add("2", {"--rdzv-backend=etcd-v2", "--rdzv-conf=etcd_prefix=/torchelastic/p2p/"});
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/2 "));
  job.pass_on("torchelastic/p2p/runs/job");
  job.end_in_order();
}

TEST_CASE("a forged leader cannot take a node that has a secret") {
  const TempDir folder;
  const std::string secret = (folder / "secret").string();
  std::ofstream(secret) << "sixteen bytes or more\n";
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const Rdzvd evil;
  OverEtcd job;
  job.etcd.put("ddprun/runs/job/leader", evil.endpoint);
  job.add("1:2", {"--rdzv-secret-file=" + secret, "--rdzv-conf=is_host=0,join_timeout=3"});
  const auto nodes = job.wait();
  INFO(nodes[0].out + nodes[0].err);
  CHECK(nodes[0].status == 69);
  CHECK_THAT(nodes[0].err, Contains("it has no secret, and this node joins only a rendezvous that "
                                    "has this node's"));
}

TEST_CASE("a run over etcd may follow another one with the same id") {
  OverEtcd job;
  for (int run = 0; run < 2; ++run) {
    for (int i = 0; i < 2; ++i) job.add("2");
    job.end_in_order();
  }
}

TEST_CASE("an etcd that does not answer is named, for as long as a node waits for others") {
  ManyNodes job;
  const std::string place = "127.0.0.1:" + std::to_string(job.port);
  job.start({"--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=etcd", "--rdzv-id=j",
             "--rdzv-endpoint=" + place, "--rdzv-conf=join_timeout=3"});
  const auto nodes = job.wait();
  INFO(nodes[0].err);
  CHECK(nodes[0].status == 69);
  CHECK_THAT(nodes[0].err,
             Contains("the rendezvous at etcd://" + place + "/ddprun does not answer"));
  CHECK_THAT(nodes[0].err, Contains("etcd at " + place + " cannot be reached: Connection refused"));
}

TEST_CASE("an etcd of version 2 ends a node at once, and is named as too old") {
  const OldEtcd old;
  ManyNodes job;
  job.start({"--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=etcd-v2", "--rdzv-id=j",
             "--rdzv-endpoint=" + old.place(), "--rdzv-conf=join_timeout=600"});
  const auto nodes = job.wait();
  INFO(nodes[0].err);
  CHECK(nodes[0].status == 69);
  CHECK_THAT(nodes[0].err,
             Contains(old.place() + " has no /v3 (HTTP status 404): etcd 3.4 or newer is needed"));
}
