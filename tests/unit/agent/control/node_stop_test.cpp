// How a node stops: signals of the user, grace periods, what workers leave behind.
#include "agent/control/node_machine.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/unit/agent/control/scripted_node.hpp"

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

TEST_CASE(
    "a node leaves where its workers succeed just before its signal, and no round starts there") {
  ScriptedNode node(1);
  node.config.rendezvous.emplace();
  node.left = true;
  node.round();
  node.took();
  node.exits(0, node.kSuccess);
  node.pass(50ms);
  node.signal(SIGTERM);
  // First the core hears of their success: those may have been the last workers of the job.
  CHECK(
      node.took() ==
      Did{"look for leftovers", "kill leftovers within 5 s", "send done", "send leave SIGTERM",
          "end within 50 s",
          "notice: SIGTERM: leaving the job; a second SIGTERM does not wait for the other nodes"});
  node.stop();
  CHECK(node.took().back() == "report the round");
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE(
    "a node that is stopped by another one's end and then by its own signal waits for no "
    "leftovers") {
  ScriptedNode node(1);
  node.config.rendezvous.emplace();
  node.left = true;
  node.round();
  node.exits(0, node.kSuccess);
  node.pass(100ms);
  node.stop();
  CHECK(node.machine.state() == NodeState::clearing);
  node.took();
  node.signal(SIGTERM);
  const Did did = node.took();
  REQUIRE(did.size() > 2);
  CHECK(did[0] == "send leave SIGTERM");
  CHECK(did[did.size() - 2] == "kill leftovers within 5 s");
  CHECK(did.back() == "report the round");
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE("a signal while leftovers of a success are killed ends this node's part once they are") {
  ScriptedNode node(1);
  node.config.rendezvous.emplace();
  node.left = node.hold_kill = true;
  node.round();
  node.exits(0, node.kSuccess);
  node.took();
  const auto left = [&] {
    const auto& leave = std::get<proto::Leave>(node.sent.back());
    return leave.signal;
  };
  SECTION("SIGTERM takes this node away") {
    node.signal(SIGTERM);
    CHECK(node.took() == Did{"kill leftovers within 5 s"});
    CHECK(node.machine.state() == NodeState::finishing);
    SECTION("and is told after the success") {
      node.killed();
      const Did did = node.took();
      REQUIRE(did.size() > 2);
      CHECK(did[0] == "send done");
      CHECK(did[1] == "send leave SIGTERM");
      CHECK(node.machine.state() == NodeState::done);
    }
    SECTION("or when the round is stopped before, of which no other follows here") {
      node.stop();
      const Did did = node.took();
      REQUIRE(!did.empty());
      CHECK(did[0] == "send leave SIGTERM");
      CHECK(did.back() == "report the round");
      CHECK(std::count(did.begin(), did.end(), "prepare") == 0);
      CHECK(node.machine.round()->stop_signal == SIGTERM);
      CHECK(node.machine.state() == NodeState::ending);
      node.killed();
      CHECK(node.took().empty());
      node.round(1);
      CHECK(node.took().empty());
    }
    SECTION("or not at all when the job has ended") {
      node.finished();
      CHECK(node.took() == Did{"end the job, its round is open"});
      node.killed();
      CHECK(node.took().empty());
    }
    SECTION("and a second one changes nothing before") {
      node.pass(1s);
      node.signal(SIGTERM);
      CHECK(node.took().empty());
      node.killed();
      CHECK(left() == SIGTERM);
      node.pass(1s);
      node.took();
      node.signal(SIGTERM);
      CHECK(node.took() == Did{"end the job, its round is open"});
    }
  }
  SECTION("SIGINT ends the job, also where a SIGTERM follows") {
    node.signal(SIGINT);
    if (GENERATE(false, true)) {
      node.pass(1s);
      node.signal(SIGTERM);
    }
    node.killed();
    CHECK(left() == SIGINT);
    CHECK(
        node.took().back() ==
        "notice: SIGINT: ending the job on all nodes; a second SIGINT does not wait for the other "
        "nodes");
  }
}

TEST_CASE("what workers leave that a second Ctrl-C has killed is killed at once") {
  ScriptedNode node(1);
  node.left = true;
  node.round();
  node.signal(SIGINT);
  node.stop(true);
  node.pass(1s);
  node.signal(SIGINT);
  node.took();
  node.exits(0, node.kKilled);
  CHECK(node.took() == Did{"look for leftovers", "kill leftovers within 5 s", "report the round"});
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

TEST_CASE("a job that the user stops keeps that reason also where a process cannot be killed") {
  ScriptedNode node(1);
  node.left = node.stuck = true;
  node.round();
  node.took();
  node.signal(SIGINT);
  CHECK(node.took().back() == "send leave SIGINT");
  node.stop(true);
  node.exits(0, node.kTerminated);
  node.pass(100ms);
  node.pass(11s);
  const Did did = node.took();
  CHECK(did.back() == "report the round");
  CHECK(std::none_of(did.begin(), did.end(),
                     [](const std::string& action) { return action.starts_with("send leave"); }));
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
