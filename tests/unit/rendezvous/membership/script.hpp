// Agents that are scripted, and a clock that is moved by hand, for tests of the membership core.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::test {

inline proto::WorkerFailed failed_in(proto::RoundNumber round) {
  proto::WorkerFailed failed;
  failed.round = round;
  return failed;
}

using namespace std::chrono_literals;

/// A job with agents that answer at once, as real ones do in the end.
class Script {
 public:
  explicit Script(proto::JobSettings job) : settings(std::move(job)), membership(settings, now) {}

  void say(const std::string& agent, proto::AgentMessage message) {
    take(membership.on(rdzv::FromAgent{agent, std::move(message)}, now));
  }
  [[nodiscard]] proto::Join join_of(const std::string& agent, int workers = 2) const {
    proto::Join join;
    join.local_world_size = workers;
    join.node_name = agent;
    join.settings = settings;
    join.store_addr = agent;
    join.store_port = 1000;
    join.knows_kept = true;
    return join;
  }
  void join(const std::string& agent, int workers = 2) { say(agent, join_of(agent, workers)); }
  /// Ends its part in the round and is there for the next one.
  void come_back(const std::string& agent) {
    stopped(agent);
    join(agent);
  }
  void fail(const std::string& agent, int local_rank, ExitStatus exit = {true, 9, false}) {
    proto::WorkerFailed failed;
    failed.round = round(agent).number;
    failed.local_rank = local_rank;
    failed.exit = exit;
    failed.ran_for = failed.at = 2500ms;
    say(agent, failed);
  }
  void done(const std::string& agent) { say(agent, proto::WorkersDone{round(agent).number}); }
  void stopped(const std::string& agent) { say(agent, proto::Stopped{round(agent).number, {}}); }
  void lose(const std::string& agent, proto::LossSign sign = proto::LossSign::ended,
            std::chrono::nanoseconds silent_for = {}, proto::ClockId clock = 0) {
    take(membership.on(rdzv::AgentLost{agent, sign, silent_for, false, clock}, now));
  }
  void pass(rdzv::Clock::duration time) {
    now += time;
    if (membership.deadline() && now >= *membership.deadline()) {
      take(membership.on(rdzv::DeadlinePassed{}, now));
    }
  }

  /// The newest message of a kind that the agent got; fails the test when there is none.
  const proto::Round& round(const std::string& agent) { return newest<proto::Round>(agent); }
  const proto::Stop& stop(const std::string& agent) { return newest<proto::Stop>(agent); }
  const proto::Finished& finished(const std::string& agent) {
    return newest<proto::Finished>(agent);
  }
  template <class T>
  int count(const std::string& agent) {
    int n = 0;
    for (const auto& message : inbox[agent]) n += std::holds_alternative<T>(message) ? 1 : 0;
    return n;
  }

  template <class T>
  const T& newest(const std::string& agent) {
    auto& messages = inbox[agent];
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
      if (const T* found = std::get_if<T>(&*it)) return *found;
    }
    FAIL("no such message for " << agent);
    std::abort();
  }

  proto::JobSettings settings;
  rdzv::Clock::time_point now{1h};
  rdzv::Membership membership;
  std::map<std::string, std::vector<proto::MembershipMessage>> inbox;
  std::vector<std::string> log;
  std::vector<std::string> warnings;

 private:
  void take(rdzv::MembershipActions actions) {
    for (auto& send : actions.sends) inbox[send.to].push_back(std::move(send.message));
    if (!actions.log.empty()) log.push_back(actions.log);
    warnings.insert(warnings.end(), actions.warnings.begin(), actions.warnings.end());
  }
};

/// What a worker says that has lost its peer.
inline proto::WorkerFailure victim(int local_rank) {
  proto::WorkerFailure failure;
  failure.local_rank = local_rank;
  failure.exit = {false, 1, false};
  failure.evidence = {proto::EvidenceKind::exception_line, 20ms, "Connection closed by peer",
                      "connection closed by peer"};
  return failure;
}

inline proto::JobSettings nodes(int min, int max, int max_restarts = 0) {
  proto::JobSettings settings;
  settings.min_nodes = min;
  settings.max_nodes = max;
  settings.restart.max_restarts = max_restarts;
  return settings;
}

}  // namespace ddprun::test
