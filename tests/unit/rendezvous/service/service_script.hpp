// Agents that are scripted, and a clock that is moved by hand, for tests of the service.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/service/service_core.hpp"
#include "tests/unit/rendezvous/membership/script.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

class ServiceScript {
 public:
  static rdzv::ServiceSettings with_secret() {
    rdzv::ServiceSettings settings;
    settings.has_secret = true;
    return settings;
  }
  /// Agents and observers have proven a secret, unless the settings say otherwise.
  explicit ServiceScript(rdzv::ServiceSettings service_settings = with_secret())
      : settings(std::move(service_settings)), core(settings, now) {}

  rdzv::ConnectionId open(const std::string& run_id = "job", const std::string& addr = "10.0.0.1") {
    const rdzv::ConnectionId id = ++connections_;
    take(core.on(rdzv::ConnectionOpened{id, run_id, addr, path(id)}, now));
    return id;
  }
  /// Both ends of a connection, as the service sees them.
  static std::string path(rdzv::ConnectionId id) { return "path " + std::to_string(id); }
  void refuse(const std::string& run_id, const std::string& addr,
              rdzv::Lack lack = rdzv::Lack::proof) {
    take(core.on(rdzv::ConnectionRefused{run_id, addr, lack}, now));
  }
  void say(rdzv::ConnectionId id, proto::ClientMessage message) {
    take(core.on(rdzv::ClientSaid{id, std::move(message)}, now));
  }
  void say(rdzv::ConnectionId id, std::uint64_t seq, proto::AgentMessage message) {
    say(id, proto::Numbered{seq, std::move(message)});
  }
  void end(rdzv::ConnectionId id, bool cleanly) {
    take(core.on(rdzv::ConnectionEnded{id, cleanly}, now));
  }
  void node_gone(const std::string& run_id, const std::string& node) {
    take(core.on(rdzv::NodeGone{run_id, node}, now));
  }
  /// A connection with a new session.
  rdzv::ConnectionId begin(const std::string& agent, const std::string& run_id = "job") {
    const rdzv::ConnectionId id = open(run_id);
    proto::Resume resume;
    resume.agent = agent;
    resume.path = forwarded ? "path to a forwarder" : path(id);
    say(id, resume);
    return id;
  }
  /// What an agent resumes with that has a session, and so has been told of an epoch.
  [[nodiscard]] static proto::Resume resume_of(const std::string& agent, std::uint64_t next_seq) {
    proto::Resume resume;
    resume.agent = agent;
    resume.epoch = 1;
    resume.next_seq = next_seq;
    resume.lease = 15s;
    return resume;
  }
  [[nodiscard]] static proto::Join join_of(const std::string& name, proto::JobSettings job) {
    proto::Join join;
    join.local_world_size = 2;
    join.node_name = name;
    join.boot_id = "boot of " + name;
    join.settings = std::move(job);
    join.store_addr = name;
    join.store_port = 1000;
    return join;
  }
  rdzv::ConnectionId join(const std::string& agent, const proto::JobSettings& job,
                          const std::string& run_id = "job") {
    const rdzv::ConnectionId id = begin(agent, run_id);
    say(id, 1, join_of(agent, job));
    return id;
  }
  /// The agents of these connections say that they live, once a second.
  void pass(rdzv::Clock::duration time, const std::vector<rdzv::ConnectionId>& alive = {}) {
    const auto end = now + time;
    while (now < end) {
      auto next = std::min(end, now + rdzv::Clock::duration(1s));
      if (core.deadline()) next = std::min(next, std::max(*core.deadline(), now));
      now = next;
      for (const rdzv::ConnectionId id : alive) say(id, proto::KeepAlive{1, {}});
      if (core.deadline() && *core.deadline() <= now) take(core.on(rdzv::DeadlinePassed{}, now));
    }
  }
  /// As a service that reads its journal.
  void restart() {
    core = rdzv::ServiceCore(settings, now);
    for (const rdzv::JobRecord& record : journal) core.replay(record);
    take(core.begin(now));
    closed.clear();
  }
  void forget(const std::string& run_id) {
    std::erase_if(journal, [&](const auto& record) { return record.run_id == run_id; });
  }

  /// The last message of a kind on a connection; null: there was none.
  template <class Message>
  const Message* last(rdzv::ConnectionId id) {
    const auto& sent = sent_[id];
    for (auto message = sent.rbegin(); message != sent.rend(); ++message) {
      if constexpr (std::is_constructible_v<proto::MembershipMessage, Message>) {
        const auto* membership = std::get_if<proto::MembershipMessage>(&*message);
        if (membership == nullptr) continue;
        if (const auto* found = std::get_if<Message>(membership)) return found;
      } else {
        if (const auto* found = std::get_if<Message>(&*message)) return found;
      }
    }
    return nullptr;
  }

  rdzv::ServiceSettings settings;
  bool forwarded = false;  ///< the connections of new sessions
  rdzv::Clock::time_point now{1h};
  rdzv::ServiceCore core;
  std::vector<rdzv::JobRecord> journal;
  std::set<rdzv::ConnectionId> closed;
  std::vector<std::string> warnings;
  std::size_t messages = 0;  ///< to all agents
  int snapshots = 0;         ///< that took the place of records

 private:
  void take(rdzv::ServiceActions actions) {
    for (rdzv::JobRecord& record : actions.records) journal.push_back(std::move(record));
    for (rdzv::JobSnapshot& snapshot : actions.snapshots) {
      forget(snapshot.run_id);
      for (rdzv::JobRecord& record : snapshot.records) journal.push_back(std::move(record));
      ++snapshots;
    }
    for (const std::string& run_id : actions.forget) forget(run_id);
    for (rdzv::ServiceSend& send : actions.sends) {
      CHECK_FALSE(closed.contains(send.to));
      sent_[send.to].push_back(std::move(send.message));
      ++messages;
    }
    closed.insert(actions.closes.begin(), actions.closes.end());
    warnings.insert(warnings.end(), actions.warnings.begin(), actions.warnings.end());
  }

  rdzv::ConnectionId connections_ = 0;
  std::map<rdzv::ConnectionId, std::vector<proto::ServiceMessage>> sent_;
};

}  // namespace ddprun::test
