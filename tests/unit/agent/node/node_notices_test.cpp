// What the user of a node is told while it waits for a round, and when one starts.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "agent/node/node_machine.hpp"
#include "proto/failure_text.hpp"
#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::ScriptedNode;
using Did = std::vector<std::string>;

TEST_CASE("a spare of a job without a run id is told how another job keeps apart") {
  const std::string line = "notice: the job runs on 2 other nodes: this one waits as a spare";
  const auto told = [](const std::string& run_id) {
    ScriptedNode node(1);
    node.config.run_id = run_id;
    node.took();
    proto::Waiting waiting;
    waiting.nodes = 2;
    waiting.is_spare = true;
    node.on(std::move(waiting));
    return node.took();
  };
  CHECK(told("job") == Did{line});
  CHECK(told("none") == Did{line + "; if this is another job, give it an --rdzv-id of its own"});
}

TEST_CASE("a spare that took part in the job is not told how another job keeps apart") {
  ScriptedNode node(1);
  node.config.run_id = "none";
  node.round();
  node.stop();
  node.exits(0, ScriptedNode::kTerminated);
  REQUIRE(node.took().back() == "send join");
  proto::Waiting waiting;
  waiting.nodes = 2;
  waiting.is_spare = true;
  node.on(std::move(waiting));
  CHECK(node.took() == Did{"notice: the job runs on 2 other nodes: this one waits as a spare"});
}

TEST_CASE("a spare that insists on a node rank is told which node has it") {
  ScriptedNode node(1);
  node.config.run_id = "none";
  node.took();
  proto::Waiting waiting;
  waiting.nodes = 2;
  waiting.is_spare = true;
  waiting.reason = "--node-rank=1 is taken by node1";
  node.on(std::move(waiting));
  CHECK(node.took() == Did{"notice: --node-rank=1 is taken by node1: this node starts only if that "
                           "one is lost, and ends with the job"});
}

TEST_CASE("a wait names the nodes that are there and those that are missing") {
  ScriptedNode node(1);
  node.took();
  proto::Waiting waiting;
  waiting.nodes = 2;
  waiting.min_nodes = waiting.max_nodes = 3;
  waiting.joined = {"node0", "node1"};
  waiting.missing = {"node rank 2"};
  waiting.left = 60s;
  node.on(std::move(waiting));
  CHECK(node.took() == Did{"notice: 2 of 3 nodes have joined (node0, node1); missing: node rank 2; "
                           "without more the job ends in 60 s"});
}

TEST_CASE("a remark of the core reaches the user, whatever the node does") {
  ScriptedNode node(1);
  node.took();
  node.on(proto::Remark{"node2 was refused"});
  CHECK(node.took() == Did{"notice: node2 was refused"});
  node.round();
  node.took();
  node.on(proto::Remark{"this job has --max-restarts=0"});
  CHECK(node.took() == Did{"notice: this job has --max-restarts=0"});
}

TEST_CASE("a node that waits on loopback is told which agents can join") {
  const auto told = [](const std::string& host) {
    ScriptedNode node(1);
    node.config.rendezvous.emplace();
    node.config.rendezvous->endpoint = Endpoint(host, 29400);
    node.took();
    proto::Waiting waiting;
    waiting.nodes = 1;
    waiting.min_nodes = waiting.max_nodes = 2;
    waiting.left = 60s;
    node.on(std::move(waiting));
    return node.took();
  };
  const std::string begin = "notice: 1 of 2 nodes have joined; ";
  const std::string end = "without more the job ends in 60 s";
  CHECK(told("localhost") ==
        Did{begin + "only agents on this machine can join (localhost:29400); " + end});
  CHECK(told("127.0.1.1") ==
        Did{begin + "only agents on this machine can join (127.0.1.1:29400); " + end});
  CHECK(told("node1") == Did{begin + end});
}

TEST_CASE("a wait for workers of an earlier rendezvous has its reason in the line") {
  ScriptedNode node(1);
  node.took();
  proto::Waiting waiting;
  waiting.nodes = waiting.min_nodes = 1;
  waiting.max_nodes = 2;
  waiting.left = 16s;
  waiting.for_past_workers = true;
  node.on(std::move(waiting));
  CHECK(node.took() ==
        Did{"notice: 1 of 1 to 2 nodes have joined; the job starts with these in 16 s (the "
            "rendezvous is new: missing nodes may still run workers of the previous one)"});
  waiting.nodes = 2;
  waiting.min_nodes = waiting.max_nodes = 2;
  waiting.left = 16s;
  waiting.for_past_workers = true;
  node.on(std::move(waiting));
  CHECK(node.took() == Did{"notice: 2 of 2 nodes have joined; the job starts with these in 16 s "
                           "(the rendezvous is new: workers of the previous one may still run)"});
}

TEST_CASE("the reason for which a round ended is printed once, also if the nodes then wait") {
  for (const bool waits : {false, true}) {
    ScriptedNode node(1);
    node.round();
    node.stop();
    node.exits(0, node.kTerminated);
    node.took();
    if (waits) {
      proto::Waiting waiting;
      waiting.nodes = 1;
      waiting.min_nodes = waiting.max_nodes = 2;
      waiting.left = 60s;
      waiting.reason = "node1 was lost";
      node.on(std::move(waiting));
      CHECK(node.took() == Did{"notice: node1 was lost; 1 of 2 nodes have joined; without more the "
                               "job ends in 60 s"});
    }
    proto::Round round;
    round.number = 1;
    round.group_world_size = 2;
    round.reason = "node1 was lost";
    node.on(std::move(round));
    const std::string reason = waits ? "" : "node1 was lost; ";
    CHECK(node.took() == Did{"notice: " + reason + "starting the workers again on 2 nodes",
                             "start workers", "send started"});
  }
}

TEST_CASE("a signal to a node that waits tells whether the job ends with it") {
  const auto told = [](int signal, bool is_spare, bool has_rendezvous) {
    ScriptedNode node(1);
    node.config.rendezvous.emplace();
    if (has_rendezvous) {
      node.round();
      node.stop();
      node.on(agent::Prepared{"10.0.0.1", 1000, 0, true, ""});
      node.exits(0, node.kTerminated);
    }
    proto::Waiting waiting;
    waiting.is_spare = is_spare;
    node.on(std::move(waiting));
    node.took();
    node.signal(signal);
    return node.took().back();
  };
  const std::string ends =
      "ending the job on all nodes; a second SIGINT does not wait for the other nodes";
  CHECK(told(SIGINT, false, false) == "notice: SIGINT: " + ends);
  CHECK(told(SIGINT, true, false) ==
        "notice: SIGINT: leaving the job; a second SIGINT does not wait for the other nodes");
  CHECK(told(SIGTERM, false, false) ==
        "notice: SIGTERM: leaving the job; a second SIGTERM does not wait for the other nodes");
  CHECK(told(SIGTERM, false, true) ==
        "notice: SIGTERM: ending the job on all nodes; a second SIGTERM does not wait for the "
        "other nodes");
}

TEST_CASE("workers that have ended while others run are told of once, after a while") {
  using Node = agent::NodeMachine;
  ScriptedNode node(3);
  node.round();
  node.took();
  CHECK_FALSE(node.machine.deadline());
  node.exits(1, node.kSuccess);
  REQUIRE(node.machine.deadline());
  node.pass(Node::kUnevenAfter - 1s);
  CHECK(node.took().empty());
  SECTION("one of them") {
    node.pass(1s);
    CHECK(node.took() == Did{"notice: rank 1 has ended, 2 of 3 workers still run"});
    CHECK_FALSE(node.machine.deadline());
    node.exits(0, node.kSuccess);
    CHECK_FALSE(node.machine.deadline());
  }
  SECTION("two of them") {
    node.exits(0, node.kSuccess);
    node.pass(1s);
    CHECK(node.took() == Did{"notice: 2 workers have ended, 1 of 3 workers still runs"});
  }
  SECTION("not where the round is stopped meanwhile") {
    node.stop();
    node.took();
    node.pass(1s);
    CHECK(node.took().empty());
  }
  SECTION("all of this node, where other nodes have workers") {
    node.config.rendezvous.emplace();
    node.exits(0, node.kSuccess);
    node.exits(2, node.kSuccess);
    REQUIRE(node.took().back() == "send done");
    node.pass(1s);
    CHECK(node.took() ==
          Did{"notice: all workers of this node ended; those of other nodes still run"});
    CHECK_FALSE(node.machine.deadline());
  }
}

TEST_CASE("the line of a restart has the error of the culprit") {
  proto::FailedWorker culprit;
  culprit.rank = 1;
  culprit.failure.exit = {false, 1, false};
  culprit.failure.ended_at = 219ms;
  culprit.failure.evidence.text = "ValueError: x";
  const std::string why = proto::describe(culprit);
  const auto told = [&](const std::string& reason) {
    ScriptedNode node(1);
    node.round();
    node.stop();
    node.exits(0, node.kTerminated);
    node.took();
    proto::Round round;
    round.number = 1;
    round.restart_count = 1;
    round.max_restarts = 3;
    round.reason = reason;
    round.last_culprit = culprit;
    node.on(std::move(round));
    return node.took().front();
  };
  CHECK(told(why) ==
        "notice: rank 1 exited with code 1 after 219 ms (ValueError: x); restarting "
        "the workers (1 of 3 restarts)");
  CHECK(told(why + "; rank 0 probably hangs") ==
        "notice: rank 1 exited with code 1 after 219 ms; rank 0 probably hangs; restarting the "
        "workers (1 of 3 restarts)");
  culprit.failure.evidence.text = std::string(200, 'x');
  CHECK(told(why) == "notice: rank 1 exited with code 1 after 219 ms (" + std::string(120, 'x') +
                         "...); restarting the workers (1 of 3 restarts)");
  culprit.failure.evidence.text.clear();
  CHECK(told(why) == "notice: " + why + "; restarting the workers (1 of 3 restarts)");
}

TEST_CASE("a node of several is told its place when the first round starts") {
  ScriptedNode node(2);
  node.config.rendezvous.emplace();
  node.config.rendezvous->endpoint = Endpoint("node1", 29400);
  node.took();
  proto::Round round;
  round.group_rank = 1;
  round.group_world_size = 2;
  round.first_rank = 2;
  round.world_size = 4;
  SECTION("once") {
    node.on(round);
    CHECK(node.took().front() ==
          "notice: joined with node rank 1 of 2 and ranks 2 to 3 of 4; rendezvous at node1:29400");
    node.stop();
    node.exits(0, node.kTerminated);
    node.exits(1, node.kTerminated);
    node.took();
    round.number = 1;
    round.reason = "node1 was lost";
    node.on(round);
    CHECK(node.took().front() == "notice: node1 was lost; starting the workers again on 2 nodes");
  }
  SECTION("not where a launcher has started it through ssh") {
    node.config.rendezvous->socket = "/tmp/x";
    node.on(round);
    CHECK(node.took().front() == "start workers");
  }
}
