// Jobs that meet over etcd, and lose what they meet over: the agent that leads, one that leaves, a
// member of etcd.
#include "tests/integration/launcher/many_nodes_over_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

/// A lease that is longer than another agent needs to lead.
const std::vector<std::string> kShortLease{
    "--rdzv-conf=keep_alive_interval=3,keep_alive_max_attempt=3,last_call_timeout=1"};

void start_three(OverEtcd& job) {
  for (std::size_t i = 0; i < 3; ++i) {
    job.add("2:3", kShortLease);
    job.await_slot(i + 1);
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/3 "));
}

void end_without(OverEtcd& job, std::size_t index) {
  for (std::size_t i = 0; i < 3; ++i)
    if (i != index) REQUIRE(job.nodes[i].wait_for_output("/2 "));
  job.open_gate();
  const auto nodes = job.wait();
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(nodes[i].out + nodes[i].err);
    if (i != index) CHECK(nodes[i].status == 0);
  }
  // A slot goes with its lease.
  CHECK(eventually([&] { return job.etcd.keys().empty(); }, std::chrono::seconds(30)));
}

}  // namespace

TEST_CASE("the others go on when the node that leads over etcd is killed or leaves") {
  const int signal = GENERATE(SIGKILL, SIGTERM);
  OverEtcd job;
  start_three(job);
  const std::string old = job.leader();
  const std::size_t index = job.index_of(old);
  job.nodes[index].signal(signal);
  job.leader_after(old);
  end_without(job, index);
}

TEST_CASE("another node takes the place of a candidate that was killed") {
  OverEtcd job;
  for (int i = 0; i < 4; ++i) {
    job.add("3:4", kShortLease);
    if (i < 3) job.await_slot(static_cast<std::size_t>(i) + 1);
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  const std::string old = job.leader();
  const std::size_t index = job.index_of(old);
  const std::string slot = "ddprun/runs/job/candidates/" + std::to_string(index + 1);
  job.nodes[index].signal(SIGKILL);
  CHECK(eventually(
      [&] {
        const std::string now = job.etcd.value(slot);
        return !now.empty() && now != old;
      },
      std::chrono::seconds(60)));
  job.open_gate();
  const auto nodes = job.wait();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    INFO(nodes[i].out + nodes[i].err);
    if (i != index) CHECK(nodes[i].status == 0);
  }
}

TEST_CASE("a job goes on while one member of etcd after another is killed") {
  OverEtcd job(3);
  for (int i = 0; i < 2; ++i) job.add("2");
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/2 "));
  for (std::size_t member = 0; member < 3; ++member) {
    job.etcd.kill(member);
    // The leader goes on for longer than its lease, with the others.
    std::set<rdzv::EtcdRevision> clocks;
    REQUIRE(eventually(
        [&] {
          const auto page =
              job.etcd.client()->range({"ddprun/runs/job/clock", "", 1, 0}, RealEtcd::kLimit);
          if (page && !page->keys.empty()) clocks.insert(page->keys[0].mod_revision);
          return clocks.size() > 6;
        },
        std::chrono::seconds(60)));
    job.etcd.start(member);
    REQUIRE(eventually(
        [&] {
          const rdzv::EtcdQuery any{"x", "", 1, 0};
          return rdzv::EtcdClient({Endpoint("127.0.0.1", job.etcd.port(member))},
                                  [] { return false; })
              .range(any, RealEtcd::kLimit)
              .has_value();
        },
        std::chrono::seconds(30)));
  }
  job.end_in_order();
}

TEST_CASE("an etcd that is full is told of") {
  OverEtcd job(1, {"--quota-backend-bytes=1000000"});
  const auto client = job.etcd.client();
  for (int i = 0; i < 20; ++i) {
    const auto done =
        client->txn({{}, {rdzv::EtcdPut{"big" + std::to_string(i), std::string(200'000, 'x')}}, {}},
                    RealEtcd::kLimit);
    if (!done) break;
  }
  job.add("2", {"--rdzv-conf=join_timeout=4"});
  const auto nodes = job.wait();
  CHECK(nodes[0].status == 69);
  CHECK_THAT(nodes[0].err, Contains("no agent of the job leads yet: etcd at") &&
                               Contains("etcdctl alarm disarm"));
}
