// A node's part in the job, driven by scripted events and a clock moved by hand.
#include "agent/node/node_machine.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "tests/support/document_table.hpp"
#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::NodeEventKind;
using agent::NodeMachine;
using agent::NodeState;
using test::ScriptedNode;
using Did = std::vector<std::string>;

TEST_CASE("a round starts, its workers succeed and the job ends") {
  ScriptedNode node(2);
  CHECK(node.took() == Did{"send join"});
  node.round();
  CHECK(node.took() == Did{"start workers", "send started"});
  node.exits(1, node.kSuccess);
  CHECK(node.took().empty());
  CHECK(node.machine.state() == NodeState::running);
  node.exits(0, node.kSuccess);
  CHECK(node.took() == Did{"look for leftovers", "send done"});
  node.finished();
  CHECK(node.took() == Did{"end the job, its round is open"});
  CHECK(node.machine.state() == NodeState::over);
}

TEST_CASE("a node that cannot prepare its place leaves and says why") {
  ScriptedNode node(1, "port 80 is taken");
  CHECK(node.took() == Did{"send leave: port 80 is taken"});
  node.finished();
  CHECK(node.took() == Did{"end the job"});
}

TEST_CASE("one worker fails and the others are stopped, reported and started again") {
  ScriptedNode node(3);
  node.round();
  node.took();
  node.pass(2s);
  node.exits(1, node.kCode3);
  CHECK(node.took() == Did{"send failed 1 at 2 s"});
  node.stop();
  // The next round's port is bound before the old group is gone.
  CHECK(node.took() == Did{"stop watching", "prepare", "stop workers by SIGTERM"});
  node.exits(0, node.kTerminated);
  CHECK(node.took().empty());
  node.exits(2, node.kTerminated);
  CHECK(node.took() == Did{"look for leftovers", "report the round", "send join"});
  node.round(1);
  CHECK(node.took() == Did{"notice: rank 1 failed; restarting the workers (1 of 3 restarts)",
                           "start workers", "send started"});
  CHECK(node.machine.restart_count() == 1);
}

TEST_CASE("where the port is given it is bound when the old store is gone") {
  ScriptedNode node(1);
  node.config.store.master_port = 29500;
  node.round();
  node.exits(0, node.kCode3);
  node.took();
  node.stop();
  CHECK(node.took() ==
        Did{"stop watching", "look for leftovers", "report the round", "prepare", "send join"});
}

TEST_CASE("a port that cannot be had while a round stops ends the node's part in the job") {
  ScriptedNode node(2);
  node.round();
  node.exits(0, node.kCode3);
  node.took();
  node.problem = "no port is free";
  node.stop();
  CHECK(node.took() ==
        Did{"stop watching", "prepare", "stop workers by SIGTERM", "send leave: no port is free"});
  node.exits(1, node.kTerminated);
  CHECK(node.took() == Did{"look for leftovers", "report the round"});
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE("a planned restart is announced once, with its delay") {
  ScriptedNode node(1);
  node.round();
  node.exits(0, node.kCode3);
  node.stop();
  node.took();
  node.on(proto::RestartPlanned{"rank 0 failed", 2s, 1, 3});
  CHECK(node.took() ==
        Did{"notice: rank 0 failed; restarting the workers in 2.0 s (1 of 3 restarts)"});
  CHECK(node.machine.restart_count() == 1);
  node.round(1);
  CHECK(node.took() == Did{"start workers", "send started"});
}

TEST_CASE("a stop that comes before the workers are known to run takes effect when they do") {
  ScriptedNode node(2);
  node.hold_start = true;
  node.round();
  node.stop();
  CHECK(node.machine.state() == NodeState::starting);
  node.took();
  node.start();
  CHECK(node.took() == Did{"send started", "stop watching", "prepare", "stop workers by SIGTERM"});
  CHECK(node.machine.state() == NodeState::stopping);
}

TEST_CASE("a worker that cannot be started is a failure and the others are stopped for it") {
  ScriptedNode node(2);
  node.cannot_start = 1;
  node.took();
  node.round();
  CHECK(node.took() == Did{"start workers", "send failed 1 at 0 s: no such file", "send started"});
  node.stop(true);
  node.exits(0, node.kTerminated);
  CHECK(node.took().back() == "report the round");
}

TEST_CASE("a round that cannot go on here is left, and stopped as any other") {
  ScriptedNode node(2);
  node.round();
  node.took();
  node.on(agent::CannotGoOn{"the workers have no store"});
  CHECK(node.took() == Did{"send leave: the workers have no store"});
  node.stop(true);
  CHECK(node.took() == Did{"stop watching", "end within 20 s", "stop workers by SIGTERM"});
  node.exits(0, node.kTerminated);
  node.exits(1, node.kTerminated);
  CHECK(node.took() == Did{"look for leftovers", "report the round"});
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE("a node that is done is stopped with the others and takes part in the next round") {
  ScriptedNode node(1);
  node.round();
  node.exits(0, node.kSuccess);
  REQUIRE(node.machine.state() == NodeState::done);
  node.took();
  node.stop();
  CHECK(node.took() ==
        Did{"stop watching", "prepare", "look for leftovers", "report the round", "send join"});
  node.round(1);
  CHECK(node.machine.state() == NodeState::running);
}

TEST_CASE("the outcome ends the job once") {
  ScriptedNode node(1);
  node.round();
  node.exits(0, node.kCode3);
  node.stop(true);
  node.took();
  node.finished();
  CHECK(node.took() == Did{"end the job"});
  node.finished();
  CHECK(node.took().empty());
}

TEST_CASE("workers that were held or dying when their round was stopped are remembered as such") {
  ScriptedNode node(3);
  node.round();
  node.exits(0, node.kCode3);
  node.conditions = {{}, {.dying = true, .suspended = false}, {.dying = false, .suspended = true}};
  node.stop();
  CHECK(node.machine.round()->group.workers()[1].was_dying);
  CHECK(node.machine.round()->group.workers()[2].was_suspended);
}

TEST_CASE("a hang is reported once, as a failure of a worker that runs") {
  ScriptedNode node(2);
  node.round();
  node.took();
  node.pass(3s);
  agent::FoundHang hang;
  hang.local_rank = 1;
  hang.message = "silent";
  node.on(hang);
  CHECK(node.took() == Did{"send failed 1 at 3 s: silent"});
  node.on(hang);
  CHECK(node.took().empty());
  REQUIRE(node.machine.round()->hang);
  CHECK(node.machine.round()->hang->message == "silent");
}

TEST_CASE("a hang that is found after a failure, before the round is stopped for it, is ignored") {
  ScriptedNode node(2);
  node.round();
  node.exits(0, node.kCode3);
  node.took();
  agent::FoundHang hang;
  hang.local_rank = 1;
  node.on(hang);
  CHECK(node.took().empty());
  CHECK_FALSE(node.machine.round()->hang);
}

TEST_CASE("a failure has the time at which the exit was seen, not when the output had been read") {
  ScriptedNode node(2);
  node.round();
  node.took();
  const auto seen_at = node.now + 1s;
  node.now += 3s;
  node.on(agent::WorkerExited{.local_rank = 0, .exit = node.kCode3, .at = seen_at});
  CHECK(node.took() == Did{"send failed 0 at 1 s"});
  CHECK(node.machine.round()->group.workers()[0].ended_at == seen_at);
}

TEST_CASE("a worker that lost a peer is kept back for a moment, in which the peer may end") {
  ScriptedNode node(3);
  node.round();
  node.took();
  node.on(agent::WorkerExited{0, node.kCode3, true, false});
  CHECK(node.took().empty());
  node.pass(100ms);
  SECTION("the peer ends in order") {
    node.exits(2, node.kSuccess);
    CHECK(node.took() == Did{"send failed 0 at 0 s"});
  }
  SECTION("the peer fails") {
    node.exits(2, node.kCode3);
    CHECK(node.took() == Did{"send failed 0 at 0 s", "send failed 2 at 0.1 s"});
  }
  SECTION("another has lost it, too, and then it ends") {
    node.on(agent::WorkerExited{1, node.kCode3, true, false});
    CHECK(node.took().empty());
    node.exits(2, node.kSuccess);
    CHECK(node.took() == Did{"send failed 0 at 0 s", "send failed 1 at 0.1 s"});
  }
  SECTION("nothing more happens") {
    node.pass(399ms);
    CHECK(node.took().empty());
    node.pass(1ms);
    CHECK(node.took() == Did{"send failed 0 at 0 s"});
  }
  SECTION("the user ends the job meanwhile") {
    node.signal(SIGTERM);
    node.stop(true);
    node.took();
    node.pass(500ms);
    for (const std::string& did : node.took()) CHECK(did.find("send failed") == std::string::npos);
  }
  CHECK_FALSE(node.machine.round()->kept_until);
}

TEST_CASE("a worker that timed out waiting is kept back until its peers have been looked at") {
  ScriptedNode node(3);
  node.round();
  node.took();
  node.on(agent::WorkerExited{0, node.kCode3, true, true});
  CHECK(node.took() == Did{"look at suspects, 0 timed out"});
  SECTION("their stacks are there") {
    node.on(agent::SuspectsSeen{});
    CHECK(node.took() == Did{"send failed 0 at 0 s"});
  }
  SECTION("another has lost the one that is gone") {
    node.on(agent::WorkerExited{1, node.kCode3, true, false});
    CHECK(node.took().empty());
    node.on(agent::SuspectsSeen{});
    CHECK(node.took() == Did{"send failed 0 at 0 s", "send failed 1 at 0 s"});
  }
  SECTION("another fails by itself") {
    node.exits(2, node.kCode3);
    CHECK(node.took() == Did{"send failed 0 at 0 s", "send failed 2 at 0 s"});
  }
  SECTION("the others end") {
    node.exits(1, node.kSuccess);
    node.exits(2, node.kSuccess);
    CHECK(node.took() == Did{"send failed 0 at 0 s"});
  }
  SECTION("the round is stopped before") {
    node.stop();
    node.took();
    node.on(agent::SuspectsSeen{});
    CHECK(node.took().empty());
  }
}

TEST_CASE("every state answers every event, as docs/architecture.md says") {
  const auto rows = test::table_in(DDPRUN_TABLES_DOCUMENT, "| event | waiting |");
  REQUIRE(rows.size() == agent::kNodeEventKinds + 1);
  REQUIRE(rows[0].size() == agent::kNodeStates + 1);
  for (int state = 0; state < agent::kNodeStates; ++state)
    CHECK(rows[0][state + 1] == to_string(static_cast<NodeState>(state)));
  for (int kind = 0; kind < agent::kNodeEventKinds; ++kind) {
    const auto& row = rows[static_cast<std::size_t>(kind) + 1];
    CHECK(row[0] == to_string(static_cast<NodeEventKind>(kind)));
    REQUIRE(row.size() == agent::kNodeStates + 1);
    for (int state = 0; state < agent::kNodeStates; ++state) {
      const auto response =
          NodeMachine::response(static_cast<NodeState>(state), static_cast<NodeEventKind>(kind));
      CAPTURE(kind, state);
      CHECK(response == (row[state + 1] == "-" ? "ignored" : row[state + 1]));
    }
  }
}

TEST_CASE("a second signal ends a node that waits for the other nodes") {
  ScriptedNode node(1);
  node.config.rendezvous.emplace();
  node.round();
  bool done = false;
  SECTION("its workers were stopped") {
    node.signal(SIGINT);
    node.stop(true);
    node.exits(0, node.kTerminated);
    CHECK(node.machine.state() == NodeState::ending);
  }
  SECTION("its workers have succeeded") {
    done = true;
    node.exits(0, node.kSuccess);
    node.signal(SIGINT);
    CHECK(node.machine.state() == NodeState::done);
  }
  node.pass(1s);
  node.took();
  node.signal(SIGINT);
  CHECK(node.took() == Did{done ? "end the job, its round is open" : "end the job"});
  CHECK(node.machine.state() == NodeState::over);
}

TEST_CASE("a node that ends its part by itself reports the restarts that it knows of") {
  ScriptedNode node(1);
  node.config.job.restart.max_restarts = 5;
  SECTION("before any round: those of its own command line") {
    node.finished();
    CHECK(node.finished_with.restart_count == 0);
    CHECK(node.finished_with.max_restarts == 5);
  }
  SECTION("in a round: those of the job") {
    node.round(2);
    node.finished();
    CHECK(node.finished_with.restart_count == 2);
    CHECK(node.finished_with.max_restarts == 3);
  }
  SECTION("what the outcome has of its own counts") {
    node.round(2);
    proto::Finished finished;
    finished.restart_count = 4;
    finished.max_restarts = 4;
    node.on(std::move(finished));
    CHECK(node.finished_with.restart_count == 4);
    CHECK(node.finished_with.max_restarts == 4);
  }
}

TEST_CASE("a node that leaves says whether it has the rendezvous") {
  ScriptedNode node(1);
  node.config.rendezvous.emplace();
  const bool has_it = GENERATE(false, true);
  node.round();
  node.exits(0, node.kCode3);
  node.stop();
  node.on(agent::Prepared{"10.0.0.1", 1000, 0, has_it, ""});
  node.round(1);
  node.signal(SIGTERM);
  REQUIRE(std::holds_alternative<proto::Leave>(node.sent.back()));
  CHECK(std::get<proto::Leave>(node.sent.back()).hosts == has_it);
}
