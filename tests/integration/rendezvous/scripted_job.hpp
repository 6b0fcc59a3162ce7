// The agents of one job, scripted, at whatever rendezvous they were given: what they do together.
#pragma once

#include <algorithm>
#include <deque>

#include "tests/integration/rendezvous/service_agent.hpp"

namespace ddprun::test {

struct ScriptedJob {
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
      return agent.has<proto::Round>() && agent.last<proto::Round>()->number == number;
    });
  }
  /// The first agent's worker is killed. Whether all are told to stop for that.
  bool all_stop_for_failure(proto::RoundNumber number) {
    proto::WorkerFailed failed;
    failed.round = number;
    failed.exit = {true, 9, false};
    agents[0].link->send(failed);
    return all([=](const ServiceAgent& agent) {
      return agent.has<proto::Stop>() && agent.last<proto::Stop>()->round == number;
    });
  }
  void tell_stopped(proto::RoundNumber number) {
    for (ServiceAgent& agent : agents) agent.link->send(proto::Stopped{number, {}});
  }
  /// All workers are done, and all agents are told of the success.
  void finish(proto::RoundNumber number) {
    for (ServiceAgent& agent : agents) agent.link->send(proto::WorkersDone{number});
    REQUIRE(all([](const ServiceAgent& agent) { return agent.has<proto::Finished>(); }));
    for (ServiceAgent& agent : agents)
      CHECK(agent.last<proto::Finished>()->outcome == proto::Finished::Outcome::succeeded);
  }

  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
};

}  // namespace ddprun::test
