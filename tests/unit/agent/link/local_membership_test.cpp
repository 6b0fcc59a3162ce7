// The membership core in the agent's process behaves as one on another node would: it answers
// later.
#include "agent/link/membership_link.hpp"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// An event loop with a core, and what the core has sent.
struct Node {
  explicit Node(proto::JobSettings job = {})
      : settings(std::move(job)), link(context, settings, [this](proto::MembershipMessage message) {
          inbox.push_back(std::move(message));
        }) {
    spdlog::set_level(spdlog::level::off);
  }

  void join() {
    proto::Join join;
    join.local_world_size = 2;
    join.settings = settings;
    join.store_addr = "127.0.0.1";
    join.store_port = 1000;
    link.send(join);
  }
  template <class T>
  const T& last() {
    REQUIRE_FALSE(inbox.empty());
    const T* message = std::get_if<T>(&inbox.back());
    REQUIRE(message != nullptr);
    return *message;
  }

  proto::JobSettings settings;
  boost::asio::io_context context{1};
  std::vector<proto::MembershipMessage> inbox;
  agent::LocalMembership link;
};

}  // namespace

TEST_CASE("the core's answer comes in a later turn of the loop and never while a message is sent") {
  Node node;
  node.join();
  CHECK(node.inbox.empty());
  node.context.poll();
  CHECK(node.last<proto::Round>().world_size == 2);
}

TEST_CASE("the core's messages come in the order in which it sent them") {
  Node node;
  node.join();
  node.link.send(proto::Leave{2, ""});
  node.link.send(proto::Stopped{0, {}});
  node.context.poll();
  REQUIRE(node.inbox.size() == 3);
  CHECK(std::holds_alternative<proto::Round>(node.inbox[0]));
  CHECK(std::holds_alternative<proto::Stop>(node.inbox[1]));
  CHECK(node.last<proto::Finished>().signal == 2);
}

TEST_CASE("the core is told when its deadline has passed and the loop ends when it waits no more") {
  proto::JobSettings settings;
  settings.max_nodes = 2;
  settings.last_call = 1ms;
  Node node(settings);
  node.join();
  node.context.run();  // one of at most two nodes: the round forms after the last call
  CHECK(node.last<proto::Round>().group_world_size == 1);
}
