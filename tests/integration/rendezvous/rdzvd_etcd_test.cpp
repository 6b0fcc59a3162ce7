// Several rdzvd over a real etcd, with scripted agents: take-over, standbys, an old leader that
// wakes, members of etcd that fail.
#include <algorithm>
#include <deque>
#include <optional>

#include "tests/integration/rendezvous/rdzvd_agents.hpp"
#include "tests/support/real_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;
using proto::Finished;
using proto::Round;
using proto::Stop;

namespace {

struct Cluster {
  explicit Cluster(std::size_t members, std::size_t daemons = 3) : etcd(members) {
    const auto ports = free_ports(daemons);
    for (const std::uint16_t port : ports) endpoints.emplace_back("127.0.0.1", port);
    rdzvd.resize(daemons);
    for (std::size_t i = 0; i < daemons; ++i) start(i);
    CHECK(leader() == 0);
  }
  void start(std::size_t i) {
    rdzvd[i].emplace(Words{"--listen=" + to_string(endpoints[i]), "--journal=" + etcd.place(),
                           "--log-level=info"});
    // The first one leads before the others are started.
    if (i == 0) REQUIRE(eventually([&] { return has_leader(); }, 20s));
  }
  [[nodiscard]] bool has_leader() const { return !etcd.value("ddprun/leader").empty(); }
  /// Waits until one serves: it has written its clock.
  std::size_t leader() {
    std::string place;
    REQUIRE(eventually([&] { return !(place = etcd.value("ddprun/leader")).empty(); }, 20s));
    for (std::size_t i = 0; i < endpoints.size(); ++i)
      if (to_string(endpoints[i]) == place) return i;
    FAIL("another one leads: " << place);
    return 0;
  }
  /// The next one leads when another's address stands in etcd.
  std::size_t leader_after(std::size_t old) {
    REQUIRE(eventually(
        [&] {
          const std::string place = etcd.value("ddprun/leader");
          return !place.empty() && place != to_string(endpoints[old]);
        },
        20s));
    return leader();
  }
  [[nodiscard]] rdzv::ServicePlace place(std::size_t first = 0) const {
    rdzv::ServicePlace place;
    place.host = endpoints[first].host;
    place.port = *endpoints[first].port;
    for (std::size_t i = 1; i < endpoints.size(); ++i)
      place.more_hosts.push_back(endpoints[(first + i) % endpoints.size()]);
    place.run_id = "job";
    return place;
  }
  void add_agents(int count) {
    for (int i = 0; i < count; ++i)
      agents.emplace_back(context, "node" + std::to_string(i),
                          place(static_cast<std::size_t>(i) % endpoints.size()));
  }
  void join_all() {
    for (ServiceAgent& agent : agents)
      agent.join(static_cast<int>(agents.size()), static_cast<int>(agents.size()));
  }
  template <class Holds>
  bool all(Holds holds) {
    return run_until(context, [&] { return std::all_of(agents.begin(), agents.end(), holds); });
  }
  bool all_in(proto::RoundNumber number) {
    return all([=](const ServiceAgent& agent) {
      return agent.has<Round>() && agent.last<Round>()->number == number;
    });
  }
  void fail_round(proto::RoundNumber number) {
    proto::WorkerFailed failed;
    failed.round = number;
    failed.exit = {true, 9, false};
    agents[0].link->send(failed);
    require(all([=](const ServiceAgent& agent) {
      return agent.has<Stop>() && agent.last<Stop>()->round == number;
    }));
    for (ServiceAgent& agent : agents) agent.link->send(proto::Stopped{number, {}});
    join_all();
    require(all_in(number + 1));
  }
  /// Or shows what everybody has printed.
  void require(bool holds) {
    if (!holds) {
      for (auto& one : rdzvd) UNSCOPED_INFO(one->first_line << ":\n" << one->stop().err);
      for (const ServiceAgent& agent : agents)
        for (const std::string& line : agent.lines) UNSCOPED_INFO(agent.name_ << ": " << line);
    }
    REQUIRE(holds);
  }
  void finish(proto::RoundNumber number, int restarts) {
    for (ServiceAgent& agent : agents) agent.link->send(proto::WorkersDone{number});
    REQUIRE(all([](const ServiceAgent& agent) { return agent.has<Finished>(); }));
    for (ServiceAgent& agent : agents) {
      CHECK(agent.last<Finished>()->outcome == Finished::Outcome::succeeded);
      CHECK(agent.last<Finished>()->restart_count == restarts);
      for (const auto& heard : agent.heard)  // no worker was killed because of the rendezvous
        if (const auto* stop = std::get_if<Stop>(&heard)) CHECK_FALSE(stop->kill);
    }
  }

  RealEtcd etcd;
  std::vector<Endpoint> endpoints;
  std::deque<std::optional<Rdzvd>> rdzvd;
  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
};

}  // namespace

TEST_CASE("a round goes on when the leading rdzvd is killed, and another one takes over") {
  Cluster job(3);
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

TEST_CASE("a leader that ends in order lets another one lead at once") {
  Cluster job(1, 2);
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
  Cluster job(1, 2);
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

TEST_CASE("a leader that is stopped and wakes writes nothing and becomes a standby") {
  Cluster job(1, 2);
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
           err.find("a standby: the rdzvd at") != std::string::npos;
  }));
  CHECK(job.leader() == 1);
  CHECK(job.etcd.value("ddprun/jobs/job/head") == head);
  job.finish(1, 1);
}

TEST_CASE("jobs go on while any one member of etcd is killed or stopped") {
  Cluster job(3, 2);
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
  Cluster job(1, 1);
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

TEST_CASE("another program at etcd's address, a full etcd and one with users are named") {
  std::string expected;
  std::optional<RealEtcd> etcd;
  std::string place;
  SECTION("a store of PyTorch") {
    const Rdzvd other({"--listen=127.0.0.1:0", "--log-level=error"});
    Rdzvd rdzvd({"--listen=127.0.0.1:0", "--journal=etcd://" + other.first_line});
    CHECK(rdzvd.child.wait_for([](const auto&, const auto& err) {
      return err.find("etcd at ") != std::string::npos || err.find("HTTP") != std::string::npos;
    }));
    return;
  }
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
      REQUIRE(run(command, options).status == 0);
    }
    expected = "auth disable";
  }
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--journal=" + etcd->place() + "/p"});
  CHECK(rdzvd.child.wait_for(
      [&](const auto&, const auto& err) { return err.find(expected) != std::string::npos; }));
}
