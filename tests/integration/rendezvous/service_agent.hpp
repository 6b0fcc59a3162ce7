// Agents of several nodes that are scripted, over real connections to a service.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/link/remote_membership.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

/// Runs the loop until something holds; false: it never did.
inline bool run_until(boost::asio::io_context& context, const std::function<bool()>& holds,
                      std::chrono::seconds limit = 30s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds() && std::chrono::steady_clock::now() < end) {
    context.restart();
    context.run_for(10ms);
  }
  return holds();
}

struct ServiceAgent {
  ServiceAgent(boost::asio::io_context& context, const std::string& name, rdzv::ServicePlace place,
               std::chrono::nanoseconds lease = 15s)
      : name_(name) {
    rdzv::SessionSettings session;
    session.agent = name;
    session.service = place.host + ":" + std::to_string(place.port);
    session.lease = lease;
    agent::RemoteMembership::Events events;
    events.message = [this](proto::MembershipMessage message) {
      heard.push_back(std::move(message));
    };
    events.notice = [this](const std::string& line) { lines.push_back(line); };
    link.emplace(context, std::move(session), std::move(place), std::move(events));
    REQUIRE_FALSE(link->start());
  }

  void join(int min_nodes, int max_nodes) {
    proto::Join join;
    join.local_world_size = 1;
    join.node_name = name_;
    join.settings.min_nodes = min_nodes;
    join.settings.max_nodes = max_nodes;
    join.settings.restart.max_restarts = 3;
    join.store_addr = name_;
    join.store_port = 1000;
    link->send(join);
  }
  /// The last message of a kind; null: there was none.
  template <class Message>
  [[nodiscard]] const Message* last() const {
    for (auto message = heard.rbegin(); message != heard.rend(); ++message)
      if (const auto* found = std::get_if<Message>(&*message)) return found;
    return nullptr;
  }
  template <class Message>
  [[nodiscard]] bool has() const {
    return last<Message>() != nullptr;
  }

  std::string name_;
  std::vector<proto::MembershipMessage> heard;
  std::vector<std::string> lines;
  std::optional<agent::RemoteMembership> link;
};

}  // namespace ddprun::test
