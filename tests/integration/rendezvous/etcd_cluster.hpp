// Several rdzvd over a real etcd, and scripted agents that know all of them.
#pragma once

#include <deque>
#include <optional>

#include "tests/integration/rendezvous/rdzvd_agents.hpp"
#include "tests/integration/rendezvous/scripted_job.hpp"
#include "tests/support/real_etcd.hpp"

namespace ddprun::test {

using proto::Round;
using proto::Stop;

struct EtcdCluster : ScriptedJob {
  explicit EtcdCluster(std::size_t members, std::size_t daemons = 3) : etcd(members) {
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
  /// Its first worker is killed; all stop and join again.
  void fail_round(proto::RoundNumber number) {
    require(all_stop_for_failure(number));
    tell_stopped(number);
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
    ScriptedJob::finish(number);
    for (ServiceAgent& agent : agents) {
      CHECK(agent.last<proto::Finished>()->restart_count == restarts);
      for (const auto& heard : agent.heard)  // no worker was killed because of the rendezvous
        if (const auto* stop = std::get_if<Stop>(&heard)) CHECK_FALSE(stop->kill);
    }
  }

  RealEtcd etcd;
  std::vector<Endpoint> endpoints;
  std::deque<std::optional<Rdzvd>> rdzvd;
};

}  // namespace ddprun::test
