// How a node stops: signals of the user and grace periods.
#include "agent/node/node_machine.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::NodeState;
using test::ScriptedNode;
using Did = std::vector<std::string>;

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

TEST_CASE("SIGTERM takes this node away, unless it is the wish to end the job") {
  for (const bool cancels : {false, true}) {
    ScriptedNode node(2);
    node.round();
    node.on(agent::JobSignal{SIGTERM, node.now.time_since_epoch(), cancels});
    CHECK(std::get<proto::Leave>(node.sent.back()).cancels == cancels);
  }
}

TEST_CASE("workers learn whether there is time to save their state") {
  const bool may_save = GENERATE(true, false);
  ScriptedNode node(2);
  SECTION("while they run") {
    node.round();
    node.took();
    node.stop(false, may_save);
  }
  SECTION("told before they were started") {
    node.hold_start = true;
    node.round();
    node.stop(false, may_save);
    node.took();
    node.start();
  }
  const auto did = node.took();
  const std::string stopped =
      may_save ? "stop workers by SIGTERM, they may save" : "stop workers by SIGTERM";
  CHECK(std::count(did.begin(), did.end(), stopped) == 1);
}

TEST_CASE("a user who waits for the end is told how long it may take") {
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

TEST_CASE("a round with failed workers is reported once what they wrote has been read") {
  ScriptedNode node(2);
  node.hold_output = true;
  node.round();
  node.exits(1, node.kCode3);
  node.stop();
  node.exits(0, node.kTerminated);
  CHECK(node.took().back() == "look for leftovers");
  CHECK(node.machine.state() == NodeState::clearing);
  SECTION("the next round follows") {
    node.on(agent::OutputRead{});
    CHECK(node.took() == Did{"report the round", "send join"});
    CHECK(node.machine.state() == NodeState::waiting);
    node.on(agent::OutputRead{});
    CHECK(node.took().empty());
  }
  SECTION("a signal meanwhile ends this node's part") {
    node.signal(SIGTERM);
    node.took();
    node.on(agent::OutputRead{});
    CHECK(node.took() == Did{"report the round"});
    CHECK(node.machine.state() == NodeState::ending);
  }
  SECTION("the job may end meanwhile") {
    node.finished();
    CHECK(node.took() == Did{"end the job, its round is open"});
    node.on(agent::OutputRead{});
    CHECK(node.took().empty());
  }
}

TEST_CASE("where all workers have ended well their output is not waited for") {
  ScriptedNode node(1);
  node.hold_output = true;
  node.round();
  node.exits(0, node.kSuccess);
  node.stop();
  CHECK(node.took().back() == "send join");
}
