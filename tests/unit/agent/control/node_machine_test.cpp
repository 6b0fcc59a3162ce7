// A node's part in the job, driven by scripted events and a clock moved by hand.
#include "agent/control/node_machine.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "tests/support/document_table.hpp"
#include "tests/unit/agent/control/scripted_node.hpp"

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

TEST_CASE("a job whose place cannot be prepared leaves and says why") {
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
  node.config.master_port = 29500;
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

TEST_CASE("the first Ctrl-C passes the signal on and a second one kills") {
  ScriptedNode node(2);
  node.round();
  node.took();
  node.signal(SIGINT);
  CHECK(node.took() == Did{"notice: SIGINT: stopping the workers; SIGKILL follows after 10 s, or "
                           "at once with a second SIGINT",
                           "send leave SIGINT"});
  node.stop(true);
  CHECK(node.took() == Did{"stop watching", "end within 20 s", "stop workers by SIGINT"});
  node.pass(99ms);
  node.signal(SIGINT);  // of the same wish: the terminal's and a wrapper's
  CHECK(node.took().empty());
  node.pass(1ms);
  SECTION("the same one") {
    node.signal(SIGINT);
    CHECK(node.took() == Did{"notice: SIGINT again: killing the workers now", "signal SIGKILL"});
  }
  SECTION("another one") {
    node.signal(SIGTERM);
    CHECK(node.took() == Did{"notice: SIGTERM: killing the workers now", "signal SIGKILL"});
  }
  node.exits(0, node.kKilled);
  node.exits(1, node.kKilled);
  CHECK(node.took() == Did{"look for leftovers", "report the round"});
  CHECK(node.machine.state() == NodeState::ending);
  node.finished();
  CHECK(node.took() == Did{"end the job"});
}

TEST_CASE("somebody who waits for the end is told how long it may take") {
  ScriptedNode node(2);
  node.round();
  node.signal(SIGTERM);
  node.stop(true);
  node.exits(1, node.kTerminated);
  node.took();
  node.pass(5s);
  CHECK(node.took() == Did{"notice: waiting for 1 of 2 workers; SIGKILL in 5 s"});
  node.pass(5s);
  CHECK(node.took() == Did{"notice: workers still run after the grace period of 10 s: killing them",
                           "signal SIGKILL"});
  node.pass(4s);
  CHECK(node.took().empty());
  node.pass(1s);  // --kill-timeout: it is given up, and named at the end
  node.stuck = true;
  CHECK(node.took() == Did{"look for leftovers", "report the round"});
}

TEST_CASE("processes that SIGKILL does not end are named while they are waited for") {
  ScriptedNode node(1);
  node.config.stop.kill_timeout = 30s;
  node.round();
  node.signal(SIGTERM);
  node.stop(true);
  node.pass(10s);
  node.took();
  node.pass(5s);
  CHECK(node.took() == Did{"name what is stuck, 25 s left"});
  node.pass(24s);
  CHECK(node.took().empty());
}

TEST_CASE("a signal while a failed round stops ends the job") {
  ScriptedNode node(2);
  node.round();
  node.exits(0, node.kCode3);
  node.stop();
  node.took();
  node.signal(SIGHUP);
  CHECK(node.took().back() == "send leave SIGHUP");
  node.exits(1, node.kTerminated);
  CHECK(node.took() == Did{"look for leftovers", "report the round"});
  CHECK(node.machine.round()->stop_signal == SIGTERM);  // with which they were stopped
}

TEST_CASE(
    "a signal between two rounds ends the job and a round that is on its way starts nothing") {
  ScriptedNode node(1);
  node.took();
  node.signal(SIGTERM);
  CHECK(node.took() == Did{"send leave SIGTERM"});
  node.round();
  CHECK(node.took().empty());
  node.stop(true);
  CHECK(node.took() == Did{"send stopped 0"});  // the core waits for it
  node.finished();
  CHECK(node.took() == Did{"end the job"});
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

TEST_CASE("what succeeded workers leave gets the grace period and is killed after it") {
  ScriptedNode node(1);
  node.left = true;
  node.round();
  node.took();
  node.exits(0, node.kSuccess);
  CHECK(node.took() == Did{"look for leftovers"});
  CHECK(node.machine.state() == NodeState::finishing);
  SECTION("it ends by itself") {
    node.left = false;
    node.on(agent::LeftoversSeen{false});
    CHECK(node.took() == Did{"send done"});
  }
  SECTION("it ignores SIGTERM") {
    node.pass(100ms);
    CHECK(node.took() == Did{"terminate leftovers, 10 s left"});
    node.pass(10s);
    CHECK(node.took() == Did{"kill leftovers within 5 s", "send done"});
  }
  SECTION("a signal kills it at once and the job is a success") {
    node.signal(SIGTERM);
    CHECK(node.took() == Did{"kill leftovers within 5 s", "send done"});
    node.finished();
    CHECK(node.took() == Did{"end the job, its round is open"});
  }
  SECTION("a stop of the round is reported when it has ended") {
    node.stop();
    CHECK(node.machine.state() == NodeState::clearing);
    CHECK(node.took() == Did{"stop watching", "prepare", "look for leftovers"});
    node.left = false;
    node.on(agent::LeftoversSeen{false});
    CHECK(node.took() == Did{"report the round", "send join"});
  }
  CHECK_FALSE(node.machine.deadline());
}

TEST_CASE("what a failed round leaves gets a moment only and a user's stop the rest of the grace") {
  ScriptedNode node(1);
  node.left = true;
  node.round();
  SECTION("failed") {
    node.exits(0, node.kCode3);
    node.stop();
    node.took();
    node.pass(100ms);
    CHECK(node.took() == Did{"kill leftovers within 5 s", "report the round", "send join"});
  }
  SECTION("stopped by a signal") {
    node.signal(SIGTERM);
    node.stop(true);
    node.pass(4s);
    node.exits(0, node.kTerminated);
    node.pass(100ms);
    CHECK(node.took().back() == "terminate leftovers, 6 s left");
    SECTION("a second one kills") {
      node.signal(SIGTERM);
      CHECK(node.took() == Did{"kill leftovers within 5 s", "report the round"});
    }
  }
}

TEST_CASE("no other round begins beside a process that cannot be killed") {
  ScriptedNode node(1);
  node.left = node.stuck = true;
  node.round();
  node.exits(0, node.kCode3);
  node.stop();
  node.took();
  node.pass(100ms);
  CHECK(node.took() == Did{"kill leftovers within 5 s",
                           "send leave: processes of the last round could not be killed",
                           "report the round"});
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

TEST_CASE("Ctrl-Z stops the workers in any state and what starts later is stopped, too") {
  ScriptedNode node(2);
  node.took();
  node.signal(SIGTSTP);
  CHECK(node.took() == Did{"pause"});
  node.round();
  CHECK(node.took() == Did{"start workers", "signal SIGSTOP", "send started"});
  SECTION("they are continued with the job") {
    node.signal(SIGCONT);
    CHECK(node.took() == Did{"resume with the workers"});
    node.signal(SIGCONT);
    CHECK(node.took() == Did{"resume"});
  }
  SECTION("they are continued to act on a stop, and did not hang") {
    node.conditions.assign(2, {.dying = false, .suspended = true});
    node.signal(SIGTERM);
    node.stop(true);
    CHECK(node.took().back() == "stop workers by SIGTERM, continue all");
    CHECK_FALSE(node.machine.round()->group.workers()[0].was_suspended);
  }
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

TEST_CASE("every state answers every event, as docs/agent.md says") {
  const auto rows = test::table_in(DDPRUN_AGENT_DOCUMENT, "| event | waiting |");
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
