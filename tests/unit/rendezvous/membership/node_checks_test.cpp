// Checks of nodes: what is asked, and what follows from the answers.
#include "rendezvous/membership/node_checks.hpp"

#include <catch2/catch.hpp>

#include "proto/message_limits.hpp"

using namespace ddprun;
using rdzv::NodeChecks;
using rdzv::Phase;
using rdzv::Roster;

namespace {

struct CheckedNode {
  CheckedNode() {
    proto::Join join;
    join.node_name = "a";
    join.checks_first = true;
    checks.ask(roster, roster.join("a", join, 0), actions);
  }
  NodeChecks::Result answer(std::uint64_t number, bool passed, bool hosts = false) {
    return checks.take_answer(roster, "a", {number, passed, "bad disk", hosts}, actions);
  }

  Roster roster{proto::JobSettings{}};
  NodeChecks checks;
  rdzv::MembershipActions actions;
};

}  // namespace

TEST_CASE("a node waits once it has passed the check that it was asked for") {
  CheckedNode node;
  REQUIRE(std::get<proto::Check>(node.actions.sends.at(0).message).number == 1);
  CHECK(node.roster.count(Phase::checking) == 1);
  CHECK_FALSE(node.answer(2, true).passed);  // of no check of this node
  CHECK(node.roster.count(Phase::checking) == 1);
  CHECK(node.answer(1, true).passed);
  CHECK(node.roster.count(Phase::waiting) == 1);
  CHECK(node.roster.find("a")->second.is_checked);
  CHECK_FALSE(node.answer(1, true).passed);  // again
}

TEST_CASE("a node that fails its check is no member any more, and is known as unsound") {
  CheckedNode node;
  const auto result = node.answer(1, false);
  CHECK_FALSE(result.passed);
  CHECK_FALSE(result.leaves.has_value());
  CHECK(node.roster.size() == 0);
  CHECK(node.actions.warnings.at(0) == "a failed its check (--preflight): bad disk");
  const auto& told = std::get<proto::Finished>(node.actions.sends.back().message);
  CHECK(told.reason == node.actions.warnings.at(0));
  CHECK(node.checks.unsound().at(0).node == "a");
}

TEST_CASE("a node that fails its check and hosts the rendezvous leaves with all") {
  CheckedNode node;
  const auto result = node.answer(1, false, true);
  REQUIRE(result.leaves.has_value());
  CHECK(result.leaves->hosts);
  CHECK(node.roster.size() == 1);
}

TEST_CASE("an unsound node has one entry, and the oldest gives way") {
  NodeChecks checks;
  checks.note_unsound("a", "one");
  checks.note_unsound("b", "two");
  checks.note_unsound("a", "three");
  REQUIRE(checks.unsound().size() == 2);
  CHECK(checks.unsound().back().node == "a");
  CHECK(checks.unsound().back().times == 2);
  for (std::size_t node = 0; node < proto::kUnsoundNodesMax; ++node)
    checks.note_unsound("n" + std::to_string(node), "bad");
  CHECK(checks.unsound().size() == proto::kUnsoundNodesMax);
  CHECK(checks.unsound().front().node == "n0");
}
