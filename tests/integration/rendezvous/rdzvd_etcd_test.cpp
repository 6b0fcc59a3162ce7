// Several rdzvd over a real etcd, with scripted agents: take-over, standbys, and what is told of
// faults.
#include "tests/integration/rendezvous/etcd_cluster.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

TEST_CASE("a round goes on when the leading rdzvd is killed, and another one takes over") {
  EtcdCluster job(3);
  job.add_agents(4);
  job.join_all();
  REQUIRE(job.all_in(0));
  const std::size_t leader = job.leader();
  CHECK(job.rdzvd[leader]->stop(SIGKILL).status == 128 + SIGKILL);
  job.leader_after(leader);
  job.fail_round(0);  // each agent is at the new leader when what it says has been answered
  for (const ServiceAgent& agent : job.agents) CHECK(agent.last<Round>()->epoch == 1);
  job.finish(1, 1);
  // All agents know, so that nothing is kept of the job.
  CHECK(eventually([&] { return job.etcd.value("ddprun/jobs/job/head").empty(); }, 40s));
}

TEST_CASE("a leader that ends in order lets another one lead at once") {
  EtcdCluster job(1, 2);
  job.add_agents(2);
  job.join_all();
  REQUIRE(job.all_in(0));
  const ChildResult first = job.rdzvd[0]->stop();
  CHECK(first.status == 0);
  CHECK_THAT(first.err, Contains("leads, and serves the jobs"));
  CHECK(job.leader_after(0) == 1);
  job.fail_round(0);
  job.finish(1, 1);
}

TEST_CASE("a standby names the leader, to people too") {
  EtcdCluster job(1, 2);
  const std::string standby = to_string(job.endpoints[1]);
  std::string err;
  REQUIRE(eventually(
      [&] {
        const ChildResult status = run(rdzvd_command({"--status", "--endpoint=" + standby}));
        err = status.err;
        return status.status == 69 && err.find("a standby; the one at") != std::string::npos;
      },
      20s));
  CHECK_THAT(err, Contains(to_string(job.endpoints[0])));
  const ChildResult status =
      run(rdzvd_command({"--status", "--endpoint=" + to_string(job.endpoints[0])}));
  CHECK(status.status == 0);
  CHECK_THAT(status.out, Contains("0 jobs"));
  // An agent that knows the standby alone is not led to an address that it was not given.
  rdzv::ServicePlace place = job.place(1);
  place.more_hosts.clear();
  ServiceAgent agent(job.context, "lonely", place);
  agent.join(1, 1);
  CHECK(run_until(job.context, [&] { return !agent.lines.empty(); }));
  CHECK_THAT(agent.lines.at(0), Contains("a standby; the one at"));
  CHECK_FALSE(agent.has<Round>());
}

TEST_CASE("another program at etcd's address is named") {
  const Rdzvd other({"--listen=127.0.0.1:0", "--log-level=error"});
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--journal=etcd://" + other.first_line});
  CHECK(rdzvd.child.wait_for([&](const auto&, const auto& err) {
    return err.find("etcd at " + other.first_line + " cannot be reached") != std::string::npos;
  }));
}

TEST_CASE("an etcd that is out of space and one with users are named, with what to do") {
  std::string expected;
  std::optional<RealEtcd> etcd;
  SECTION("out of space") {
    etcd.emplace(1, Words{"--quota-backend-bytes=1000000"});
    const auto client = etcd->client();
    for (int i = 0; i < 20; ++i) {
      const auto done = client->txn(
          {{}, {rdzv::EtcdPut{"big" + std::to_string(i), std::string(200'000, 'x')}}, {}},
          RealEtcd::kLimit);
      if (!done) break;
    }
    expected = "alarm disarm";
  }
  SECTION("users") {
    etcd.emplace(1);
    const std::string at = "--endpoints=127.0.0.1:" + std::to_string(etcd->port(0));
    ChildOptions options;
    options.environment = {{"ETCDCTL_API", "3"}};
    for (const Words& words : {Words{"user", "add", "root:root"}, Words{"auth", "enable"}}) {
      Words command{"/usr/bin/etcdctl", at};
      command.insert(command.end(), words.begin(), words.end());
      const ChildResult done = run(command, options);
      INFO(done.out + done.err);
      REQUIRE(done.status == 0);
    }
    expected = "asks for a user: name one with --etcd-user=NAME";
  }
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--journal=" + etcd->place() + "/p"});
  CHECK(rdzvd.child.wait_for(
      [&](const auto&, const auto& err) { return err.find(expected) != std::string::npos; }));
}
