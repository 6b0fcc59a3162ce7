// What a node waits for before it takes part: its check, and GPUs that it has claimed.
#include <catch2/catch.hpp>

#include "base/exit_codes.hpp"
#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::CheckEnded;
using agent::NodeState;
using test::ScriptedNode;
using Did = std::vector<std::string>;

namespace {

/// It has joined.
struct CheckedNode : ScriptedNode {
  CheckedNode() : ScriptedNode(1) {
    config.checks.preflight = {"check-gpus", 5min};
    on(agent::Prepared{"10.0.0.1", 1000, 0, false, ""});
    took();
  }
};

}  // namespace

TEST_CASE("a node with a check says so when it joins, and runs it when it is asked") {
  CheckedNode node;
  CHECK(std::get<proto::Join>(node.sent.back()).checks_first);
  CHECK_FALSE(std::get<proto::Join>(ScriptedNode(1).sent.back()).checks_first);
  node.on(proto::Check{4});
  CHECK(node.took() == Did{"run the check"});
  node.on(CheckEnded{true, "", 3200ms});
  CHECK(node.took() == Did{"notice: this node has passed its check (--preflight) in 3.2 s",
                           "send checked 4: passed"});
  node.round();
  CHECK(node.machine.state() == NodeState::running);
}

TEST_CASE("the answer to a check that another service asked for has the newest number") {
  CheckedNode node;
  node.on(proto::Check{4});
  node.on(proto::Check{1});
  CHECK(node.took() == Did{"run the check"});
  node.on(CheckEnded{false, "exited with code 1", 1s});
  CHECK(node.took() == Did{"send checked 1: exited with code 1"});
  node.on(CheckEnded{true, "", 1s});  // of none that is known
  CHECK(node.took().empty());
}

TEST_CASE("a node that has failed its check ends with an exit code of its own") {
  CheckedNode node;
  node.on(proto::Check{1});
  node.on(CheckEnded{false, "exited with code 1", 1s});
  node.took();
  SECTION("it is told so") {
    proto::Finished finished;
    finished.reason = "node1 failed its check (--preflight): exited with code 1";
    node.on(std::move(finished));
    CHECK(node.took() == Did{"end the job"});
  }
  SECTION("the job has ended before") {
    node.finished();
    CHECK(node.took() == Did{"notice: this node failed its check (--preflight): exited with code 1",
                             "end the job"});
  }
  CHECK(node.finished_with.exit_code == kExitUnsound);
}

TEST_CASE("a check that runs is ended with the node's part in the job") {
  CheckedNode node;
  node.on(proto::Check{1});
  node.took();
  SECTION("a signal") {
    node.signal(SIGTERM);
    CHECK(node.took() == Did{"stop the check", "send leave SIGTERM"});
    CHECK(node.machine.state() == NodeState::ending);
    node.on(CheckEnded{true, "", 1s});
    node.on(proto::Check{2});
    CHECK(node.took().empty());
  }
  SECTION("the job's end") {
    node.finished();
    CHECK(node.took() == Did{"stop the check", "end the job"});
    CHECK_FALSE(node.finished_with.exit_code.has_value());
  }
}

TEST_CASE("no round starts on a node that has not passed its check") {
  CheckedNode node;
  node.round();
  CHECK(node.took() == Did{"send leave: the rendezvous is of an older version, which asks for no "
                           "check (--preflight)"});
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE("a node that has the rendezvous says so with its answer") {
  CheckedNode node;
  node.on(agent::Prepared{"10.0.0.1", 1000, 0, true, ""});
  node.on(proto::Check{1});
  node.took();
  node.on(CheckEnded{false, "no GPU", 1s});
  CHECK(node.took() == Did{"send checked 1: no GPU, hosts"});
}

TEST_CASE("a node with claimed GPUs joins again when nothing uses them") {
  ScriptedNode node(1);
  node.config.checks.claimed_gpus = {"0=GPU-a"};
  node.round();
  node.exits(0, node.kCode3);
  node.stop();
  CHECK(node.machine.state() == NodeState::waiting);
  CHECK(node.took().back() == "await the GPUs");
  SECTION("they are awaited") {
    node.on(agent::GpusAwaited{});
    CHECK(node.took() == Did{"send join"});
  }
  SECTION("another rendezvous is met meanwhile") {
    node.on(agent::Prepared{"10.0.0.1", 1002, 0, false, ""});
    CHECK(node.took().empty());
    node.on(agent::GpusAwaited{});
    CHECK(node.took() == Did{"send join"});
    CHECK(std::get<proto::Join>(node.sent.back()).store_port == 1002);
  }
  SECTION("the user ends the job meanwhile") {
    node.signal(SIGTERM);
    node.took();
    node.on(agent::GpusAwaited{});
    CHECK(node.took().empty());
  }
}
