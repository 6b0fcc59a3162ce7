// Several rdzvd over a real etcd for longer: several kills, an old leader that wakes, members of
// etcd that fail.
#include "tests/integration/rendezvous/etcd_cluster.hpp"

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("a round goes on when each leading rdzvd is killed in turn") {
  EtcdCluster job(3);
  job.add_agents(4);
  job.join_all();
  REQUIRE(job.all_in(0));
  std::size_t leader = job.leader();
  for (int i = 0; i < 2; ++i) {
    CHECK(job.rdzvd[leader]->stop(SIGKILL).status == 128 + SIGKILL);
    const std::size_t next = job.leader_after(leader);
    job.start(leader);
    leader = next;
    job.fail_round(i);  // each agent is at the new leader when what it says has been answered
    for (const ServiceAgent& agent : job.agents) CHECK(agent.last<Round>()->epoch == 1);
  }
  job.finish(2, 2);
  // All agents know, so that nothing is kept of the job.
  CHECK(eventually([&] { return job.etcd.value("ddprun/jobs/job/head").empty(); }, 40s));
  for (auto& rdzvd : job.rdzvd) CHECK(rdzvd->stop().status == 0);
}

TEST_CASE("a leader that is stopped and wakes writes nothing and becomes a standby") {
  EtcdCluster job(1, 2);
  job.add_agents(2);
  job.join_all();
  REQUIRE(job.all_in(0));
  job.rdzvd[0]->child.signal(SIGSTOP);
  CHECK(job.leader_after(0) == 1);
  job.fail_round(0);  // over the new leader, while the old one has open connections
  const std::string head = job.etcd.value("ddprun/jobs/job/head");
  job.rdzvd[0]->child.signal(SIGCONT);
  CHECK(job.rdzvd[0]->child.wait_for([](const auto&, const auto& err) {
    return err.find("leads no more: ") != std::string::npos &&
           err.find("a standby: the rendezvous at") != std::string::npos;
  }));
  CHECK(job.leader() == 1);
  CHECK(job.etcd.value("ddprun/jobs/job/head") == head);
  job.finish(1, 1);
}

TEST_CASE("jobs go on while any one member of etcd is killed or stopped") {
  EtcdCluster job(3, 2);
  job.add_agents(2);
  job.join_all();
  REQUIRE(job.all_in(0));
  proto::RoundNumber round = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    job.etcd.member(i).signal(SIGSTOP);
    job.fail_round(round++);
    job.etcd.member(i).signal(SIGCONT);
  }
  job.etcd.kill(0);
  job.finish(round, 3);  // which is as many restarts as a job may have
}

TEST_CASE("while etcd is away nobody leads, and the reason is told") {
  EtcdCluster job(1, 1);
  job.etcd.kill(0);
  CHECK(job.rdzvd[0]->child.wait_for([](const auto&, const auto& err) {
    return err.find("leads no more: its lease in etcd is over") != std::string::npos &&
           err.find("cannot be reached") != std::string::npos;
  }));
  job.etcd.start(0);
  CHECK(job.rdzvd[0]->child.wait_for([](const auto&, const auto& err) {
    return err.find("etcd answers again") != std::string::npos;
  }));
  job.add_agents(1);
  job.join_all();
  CHECK(job.all_in(0));
}
