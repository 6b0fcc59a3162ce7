// What workers leave behind when they have ended: how long a node waits for it, and what a signal
// or a stop means meanwhile.
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
    CHECK(node.took() == Did{"stop watching", "prepare"});
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
  CHECK(node.took() ==
        Did{"look for leftovers", "kill leftovers within 5 s", "send done", "send leave SIGTERM",
            "end within 50 s",
            "notice: SIGTERM: leaving the job, unless it has succeeded; a second SIGTERM does not "
            "wait for the other nodes"});
  node.stop();
  CHECK(node.took().back() == "report the round");
  CHECK(node.machine.state() == NodeState::ending);
}

TEST_CASE("what succeeded workers leave gets no more time than others once the round is stopped") {
  ScriptedNode node(1);
  node.left = true;
  node.round();
  node.exits(0, node.kSuccess);
  const bool told = GENERATE(false, true);
  CAPTURE(told);
  if (told) node.pass(100ms);
  SECTION("a moment") {
    node.stop();
    CHECK(node.machine.state() == NodeState::clearing);
    node.took();
    node.pass(99ms);
    CHECK(node.took().empty());
    node.pass(1ms);
    CHECK(node.took() == Did{"kill leftovers within 5 s", "report the round", "send join"});
  }
  SECTION("not more than it had") {
    node.pass(told ? 9950ms : 50ms);
    node.stop();
    node.took();
    node.pass(50ms);
    CHECK(node.took() == Did{"kill leftovers within 5 s", "report the round", "send join"});
  }
  SECTION("none if all are killed") {
    node.on(proto::Stop{0, "", false, true, false});
    CHECK(node.took().back() == "send join");
    CHECK(node.machine.state() == NodeState::waiting);
  }
}

TEST_CASE("what succeeded workers leave has its grace period if this node had got a signal") {
  ScriptedNode node(1);
  node.left = true;
  node.round();
  node.signal(SIGTERM);
  node.exits(0, node.kSuccess);
  node.pass(100ms);
  node.took();
  node.stop(true);
  node.took();
  node.pass(9900ms);
  CHECK(node.took().empty());
  node.pass(100ms);
  CHECK(node.took() == Did{"kill leftovers within 5 s", "report the round"});
}

TEST_CASE("a stop while leftovers are killed waits for that, and they do not count as stuck") {
  ScriptedNode node(1);
  node.left = node.hold_kill = true;
  node.round();
  node.exits(0, node.kSuccess);
  node.pass(100ms);
  node.pass(10s);
  CHECK(node.took().back() == "kill leftovers within 5 s");
  node.stop();
  CHECK(node.took() == Did{"stop watching", "prepare"});
  CHECK(node.machine.state() == NodeState::clearing);
  SECTION("they end") {
    node.killed();
    CHECK(node.took() == Did{"report the round", "send join"});
  }
  SECTION("they can't be killed") {
    node.stuck = true;
    node.killed();
    CHECK(node.took() ==
          Did{"send leave: processes of the last round could not be killed", "report the round"});
  }
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
  node.pass(100ms);
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
      CHECK(std::count(did.begin(), did.end(), "prepare") == 0);
      CHECK(node.machine.round()->stop_signal == SIGTERM);
      CHECK(node.machine.state() == NodeState::clearing);
      node.killed();
      CHECK(node.took() == Did{"report the round"});
      CHECK(node.machine.state() == NodeState::ending);
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
  SECTION("SIGINT ends the job, also where a SIGTERM follows or came before") {
    const auto signals =
        GENERATE(std::vector{SIGINT}, std::vector{SIGINT, SIGTERM}, std::vector{SIGTERM, SIGINT},
                 std::vector{SIGTERM, SIGINT, SIGTERM}, std::vector{SIGINT, SIGHUP});
    CAPTURE(signals);
    for (const int signal : signals) {
      node.signal(signal);
      node.pass(1s);
    }
    node.killed();
    CHECK(left() == SIGINT);
    CHECK(std::get<proto::Leave>(node.sent.back()).cancels);
    CHECK(node.took().back() ==
          "notice: SIGINT: ending the job on all nodes, unless it has succeeded; a second SIGINT "
          "does not wait for the other nodes");
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
