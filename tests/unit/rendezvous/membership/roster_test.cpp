// Which nodes a job has, and which of them take part in a round.
#include "rendezvous/membership/roster.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using rdzv::Member;
using rdzv::Phase;
using rdzv::Roster;
using Names = std::vector<std::string>;

namespace {

proto::JobSettings settings_for(int max_nodes) {
  proto::JobSettings settings;
  settings.max_nodes = max_nodes;
  settings.failing_nodes_step_back = true;
  return settings;
}

/// Nodes that join one after the other.
struct Nodes {
  explicit Nodes(int max_nodes) : roster(settings_for(max_nodes)) {}
  Member& join(const std::string& agent, std::optional<int> rank = {}, bool insists = false) {
    proto::Join join;
    join.node_name = agent.substr(0, agent.find('-'));
    join.local_world_size = 1;
    join.requested_group_rank = rank;
    join.insists_on_rank = insists;
    return roster.join(agent, join, joins++).second;
  }
  Names seated() {
    Names agents;
    for (const Roster::Entry* entry : roster.seated()) agents.push_back(entry->first);
    return agents;
  }

  Roster roster;
  std::uint64_t joins = 0;
};

}  // namespace

TEST_CASE("nodes are seated by rank asked for, place in the last round and name") {
  Nodes nodes(4);
  for (const char* agent : {"node10", "node2", "node1"}) nodes.join(agent);
  CHECK(nodes.seated() == Names{"node1", "node2", "node10"});
  nodes.join("node3", 0);
  CHECK(nodes.seated() == Names{"node3", "node1", "node2", "node10"});
  nodes.join("node2").seat.emplace().group_rank = 3;
  nodes.join("node10").seat.emplace().group_rank = 1;
  CHECK(nodes.seated() == Names{"node3", "node10", "node2", "node1"});
}

TEST_CASE("a node that fails twice in a row is the last of the spares") {
  Nodes nodes(1);
  nodes.join("a").seat.emplace();
  nodes.join("b");
  nodes.roster.count_failed_round("a");
  CHECK(nodes.seated() == Names{"a"});
  SECTION("it gives way") {
    nodes.roster.count_failed_round("a");
    CHECK(nodes.roster.gives_way(nodes.join("a")));
    CHECK(nodes.seated() == Names{"b"});
  }
  SECTION("unless it insists on its rank") {
    nodes.roster.count_failed_round("a");
    CHECK_FALSE(nodes.roster.gives_way(nodes.join("a", 0, true)));
    CHECK(nodes.seated() == Names{"a"});
  }
  SECTION("another end of a round begins a new row") {
    nodes.roster.count_failed_round({});
    nodes.roster.count_failed_round("a");
    CHECK(nodes.seated() == Names{"a"});
  }
}

TEST_CASE("nodes are counted by phase, through all that happens to them") {
  Nodes nodes(4);
  Member& a = nodes.join("a");
  nodes.join("b");
  CHECK(nodes.roster.count(Phase::waiting) == 2);
  nodes.roster.set_phase(a, Phase::gone);
  CHECK(nodes.roster.count(Phase::waiting) == 1);
  nodes.roster.erase_gone();
  CHECK(nodes.roster.size() == 1);
  CHECK(nodes.roster.count(Phase::gone) == 0);
  CHECK(nodes.roster.find("a") == nullptr);
  rdzv::NodeSnapshot seated;
  seated.seat.emplace();
  nodes.roster.restore("c", seated);
  nodes.roster.restore("b", seated);  // is there already
  CHECK(nodes.roster.count(Phase::active) == 1);
  CHECK(nodes.roster.count(Phase::waiting) == 1);
}

TEST_CASE("a rank has one holder, and is free when that one goes or asks for another") {
  Nodes nodes(3);
  nodes.join("a", 1, true);
  REQUIRE(nodes.roster.holder(1) != nullptr);
  CHECK(nodes.roster.holder(1)->first == "a");
  CHECK(nodes.roster.holder(0) == nullptr);
  CHECK(nodes.roster.missing() == Names{"node rank 0", "node rank 2"});
  nodes.join("a", 0, true);
  CHECK(nodes.roster.holder(1) == nullptr);
  nodes.roster.erase(*nodes.roster.find("a"));
  CHECK(nodes.roster.holder(0) == nullptr);
}

TEST_CASE("a rank that several nodes wish for is known, each of them once") {
  Nodes nodes(3);
  nodes.join("a", 1);
  CHECK(nodes.roster.with_same_rank(*nodes.roster.find("a")) == nullptr);
  nodes.join("b", 1);
  nodes.join("c");
  CHECK(nodes.roster.with_same_rank(*nodes.roster.find("a"))->first == "b");
  CHECK(nodes.roster.with_same_rank(*nodes.roster.find("b"))->first == "a");
  CHECK(nodes.roster.with_same_rank(*nodes.roster.find("c")) == nullptr);
}

TEST_CASE("several agents of one name go by their own, and many nodes by none") {
  Nodes nodes(100);
  nodes.join("host-1");
  nodes.join("host-2");
  nodes.join("other-1");
  CHECK(nodes.roster.names_of(Phase::waiting) == Names{"host-1", "host-2", "other"});
  for (int node = 0; node < 80; ++node) nodes.join("n" + std::to_string(node));
  CHECK(nodes.roster.names_of(Phase::waiting).empty());
  CHECK(nodes.roster.notified().size() == Roster::kNotifiedMax);
}
