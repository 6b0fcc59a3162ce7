// How a node keeps workers that can take part in another round.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::NodeState;
using test::ScriptedNode;
using Did = std::vector<std::string>;

namespace {

/// Two workers run that can take part in another round.
class KeepingNode : public ScriptedNode {
 public:
  explicit KeepingNode(int workers = 2) : ScriptedNode(workers) {
    round();
    for (int i = 0; i < workers; ++i) on(agent::WorkerCanWait{i});
    took();
  }
  void keep() {
    proto::Stop stop;
    stop.round = machine.round()->round.number;
    stop.keep = true;
    on(stop);
  }
  void waits(int local_rank, std::optional<std::uint64_t> step = 7) {
    on(agent::WorkerWaits{local_rank, step});
  }
  void next_round(std::vector<int> local_ranks) {
    proto::Round next;
    next.number = machine.round()->round.number + 1;
    next.restart_count = static_cast<int>(next.number);
    next.max_restarts = 3;
    next.reason = "rank 1 failed";
    next.world_size = 2;
    next.keep = std::move(local_ranks);
    next.kept_workers = static_cast<int>(next.keep.size());
    next.source_step = 7;
    on(std::move(next));
  }
  /// The newest Join.
  [[nodiscard]] proto::Join joined() const {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it)
      if (const auto* join = std::get_if<proto::Join>(&*it)) return *join;
    FAIL("it has not joined");
    std::abort();
  }
  [[nodiscard]] const agent::WorkerRecord& worker(std::size_t local_rank) const {
    return machine.round()->group.workers()[local_rank];
  }
};

bool has(const Did& did, const std::string& what) {
  return std::find(did.begin(), did.end(), what) != did.end();
}

}  // namespace

TEST_CASE("a worker that waits is offered for the next round, and goes on in it") {
  KeepingNode node;
  node.exits(0, node.kKilled);
  node.keep();
  CHECK(node.worker(1).keeping == agent::Keeping::asked);
  CHECK(node.machine.state() == NodeState::stopping);
  node.took();
  node.waits(1);
  CHECK(node.took() == Did{"look for leftovers", "report the round", "send join"});
  CHECK(node.machine.state() == NodeState::waiting);
  CHECK(node.joined().kept == std::vector<proto::KeptWorker>{{1, 0, 7}});

  node.next_round({1});
  CHECK(node.took() ==
        Did{"notice: rank 1 failed; 1 of 2 workers go on after step 7, with the state of rank 0 (1 "
            "of 3 restarts)",
            "start workers", "send started"});
  CHECK(node.worker(1).running());
  CHECK(node.worker(1).start.number == 0);
  CHECK(node.worker(0).start.number == 1);
  CHECK(node.worker(1).keeping == agent::Keeping::possible);
}

TEST_CASE("a worker is asked to wait only where the core allows it and nobody stops the job") {
  KeepingNode node;
  bool asks = false;
  SECTION("allowed") {
    node.keep();
    asks = true;
  }
  SECTION("not allowed") { node.stop(); }
  SECTION("the user stops the job") {
    node.signal(SIGTERM);
    node.keep();
  }
  CHECK(node.worker(0).gets_signals() == !asks);
}

TEST_CASE("a worker that hangs, or is suspended, is ended") {
  KeepingNode node;
  SECTION("it hangs") {
    agent::FoundHang found;
    found.local_rank = 1;
    node.on(found);
    node.keep();
  }
  SECTION("it is suspended") {
    node.conditions[1].suspended = true;
    node.exits(0, node.kKilled);
    node.keep();
  }
  CHECK(node.worker(1).gets_signals());
}

TEST_CASE("a worker that does not leave its round is killed after the grace period") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  node.took();
  node.pass(10s);
  CHECK(has(node.took(), "signal SIGKILL"));
  CHECK(node.worker(1).gets_signals());
  CHECK(node.worker(0).waits());
  node.exits(1, node.kKilled);
  CHECK(node.joined().kept == std::vector<proto::KeptWorker>{{0, 0, 7}});
}

TEST_CASE("a worker that ends while it waits is not offered any more") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  node.waits(1, std::nullopt);
  CHECK(node.joined().kept == std::vector<proto::KeptWorker>{{0, 0, 7}, {1, 0, std::nullopt}});
  node.took();
  node.exits(0, node.kKilled);
  CHECK(node.took() == Did{"send join"});
  CHECK(node.joined().kept == std::vector<proto::KeptWorker>{{1, 0, std::nullopt}});
}

TEST_CASE("a round that counts on a worker which has ended meanwhile fails at once") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  node.waits(1);
  node.exits(1, node.kKilled);
  node.took();
  bool is_stopped = false;
  SECTION("while it runs") { node.next_round({0, 1}); }
  SECTION("stopped before it was started") {
    is_stopped = true;
    node.hold_start = true;
    node.next_round({0, 1});
    node.keep();
    node.start();
  }
  const Did did = node.took();
  CHECK(has(did, "send failed 1 at 0 s"));
  CHECK(node.machine.state() == (is_stopped ? NodeState::stopping : NodeState::running));
}

TEST_CASE("workers that wait and do not go on are ended before others are started") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  node.waits(1);
  node.took();
  node.next_round({});
  CHECK(node.newest_start.dropped.size() == 2);
  CHECK(node.newest_start.clears);
  CHECK(
      has(node.took(),
          "notice: rank 1 failed; restarting the workers, for none that waits has a state (1 of 3 "
          "restarts)"));
  CHECK(node.worker(0).start.number == 1);
}

TEST_CASE("what a worker has left that ended while it waited is ended before the next round") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  node.waits(1);
  SECTION("both go on") {
    node.next_round({0, 1});
    CHECK_FALSE(node.newest_start.clears);
  }
  SECTION("one has ended") {
    node.exits(1, node.kKilled);
    node.next_round({0});
    CHECK(node.newest_start.clears);
  }
  SECTION("they were killed when the node was a spare") {
    proto::Waiting waiting;
    waiting.is_spare = true;
    node.on(waiting);
    node.exits(0, node.kKilled);
    node.exits(1, node.kKilled);
    node.next_round({});
    CHECK(node.newest_start.clears);
  }
  CHECK(node.newest_start.dropped.empty());
}

TEST_CASE("workers that wait are killed where their node gets no place, leaves or is fenced") {
  KeepingNode node;
  node.keep();
  node.waits(0);
  SECTION("a spare") {
    node.waits(1);
    node.took();
    proto::Waiting waiting;
    waiting.is_spare = true;
    node.on(waiting);
  }
  SECTION("it leaves") {
    node.waits(1);
    node.took();
    node.signal(SIGTERM);
  }
  SECTION("fenced") {
    node.took();
    proto::Stop stop;
    stop.kill = true;
    node.on(stop);
  }
  CHECK(has(node.took(), "signal SIGKILL"));
  CHECK(node.worker(0).gets_signals());
  // SIGKILL has a limit, and nothing waits for it in vain.
  node.exits(0, node.kKilled);
  node.exits(1, node.kKilled);
  CHECK((!node.machine.deadline() || node.machine.state() == NodeState::stopping));
}

TEST_CASE("a worker that says again and again that it waits is heard once") {
  KeepingNode node;
  for (int i = 0; i < 1000; ++i) node.waits(1);
  node.pass(500ms);
  CHECK(node.took() ==
        Did{"send failed 1 at 0 s: it has lost another worker and waits for the next round"});
  CHECK(node.machine.round()->leavers == std::vector<int>{1});
  node.keep();
  for (int i = 0; i < 1000; ++i) node.waits(0);
  CHECK(node.machine.state() == NodeState::waiting);
  CHECK(node.joined().kept.size() == 2);
}

TEST_CASE("a worker that leaves its round unasked has lost another one, which may be ending") {
  KeepingNode node;
  node.waits(1);
  CHECK(node.took().empty());
  SECTION("it is") {
    node.pass(100ms);
    node.exits(0, node.kKilled);
    CHECK(has(node.took(), "send failed 0 at 0.1 s"));
  }
  SECTION("no worker ends") {
    node.pass(500ms);
    CHECK(node.took() ==
          Did{"send failed 1 at 0 s: it has lost another worker and waits for the next round"});
  }
  node.keep();
  CHECK(node.worker(1).waits());
  if (!node.worker(0).exit) node.waits(0);
  CHECK(node.machine.state() == NodeState::waiting);
  CHECK(node.joined().kept.back() == proto::KeptWorker{1, 0, 7});
}
