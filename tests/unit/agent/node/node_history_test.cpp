// A node's machine and the membership core together, through random histories: messages are late,
// workers end as they like, people press keys.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "rendezvous/membership/membership.hpp"
#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::NodeState;
using test::ScriptedNode;

namespace {

proto::JobSettings settings(int max_restarts) {
  proto::JobSettings settings;
  settings.restart.max_restarts = max_restarts;
  return settings;
}

class Job {
 public:
  explicit Job(unsigned seed)
      : random_(seed),
        node(1 + static_cast<int>(seed % 3)),
        core_(settings(static_cast<int>(seed % 5)), node.now) {
    if (seed % 4 < 2) node.config.rendezvous.emplace();
    proto::Join join;
    join.local_world_size = static_cast<int>(node.config.workers.size());
    join.store_addr = "127.0.0.1";
    join.store_port = 1000;
    if (node.sent.empty()) node.sent.push_back(join);
    look();
  }

  void step() {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3:
        deliver();
        break;
      case 4:
      case 5:
      case 6:
        exit();
        break;
      case 7:
        if (random_() % 8 == 0) ask_to_end(random_() % 2 == 0 ? SIGINT : SIGTERM);
        break;
      case 8:
        node.signal(random_() % 2 == 0 ? SIGTSTP : SIGCONT);
        break;
      case 9:
        node.left = random_() % 3 == 0;
        node.hold_kill = random_() % 2 == 0;
        if (random_() % 2 == 0) node.killed();
        if (node.machine.waits_for_leftovers()) node.on(agent::LeftoversSeen{node.left});
        break;
      case 10:
        switch (random_() % 24) {
          case 0:
            node.on(agent::CannotGoOn{"no thread"});
            break;
          case 1:
          case 2:
          case 3:
          case 4:
            hang();
            break;
          default:
            node.on(agent::SuspectsSeen{});
        }
        break;
      default:
        pass(std::chrono::milliseconds(random_() % 3000));
    }
    look();
  }

  /// The user wants it to end, and nothing is in the way any more.
  void end() {
    node.left = node.hold_kill = false;
    node.killed();
    for (int i = 0; i < 60 && node.machine.state() != NodeState::over; ++i) {
      if (i % 20 == 0) ask_to_end(SIGTERM);
      deliver();
      exit();
      if (node.machine.waits_for_leftovers()) node.on(agent::LeftoversSeen{false});
      node.on(agent::SuspectsSeen{});
      pass(1s);
      look();
    }
  }

 private:
  std::mt19937 random_;

 public:
  ScriptedNode node;
  int ended = 0;

 private:
  [[nodiscard]] std::vector<int> running() const {
    std::vector<int> ranks;
    if (node.machine.round() == nullptr) return ranks;
    const auto& workers = node.machine.round()->group.workers();
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers[i].running()) ranks.push_back(static_cast<int>(i));
    }
    return ranks;
  }

  void ask_to_end(int signal) {
    asked_to_end_ = true;
    node.signal(signal);
  }

  void deliver() {
    if (inbox_.empty()) return;
    const bool ran = !running().empty();
    const proto::MembershipMessage message = std::move(inbox_.front());
    inbox_.pop_front();
    const auto before = node.machine.round() != nullptr ? node.machine.round()->round.number : -1;
    std::visit([this](const auto& specific) { node.on(specific); }, message);
    const auto* round = node.machine.round();
    if (round == nullptr || round->round.number == before) return;
    CHECK_FALSE(ran);
    // With other nodes the job may go on, but not here.
    if (node.config.rendezvous) CHECK_FALSE(asked_to_end_);
  }

  void exit() {
    const auto ranks = running();
    if (ranks.empty()) return;
    const int rank = ranks[random_() % ranks.size()];
    const bool fails = random_() % 2 == 0;
    const ExitStatus code = fails ? ScriptedNode::kCode3 : ScriptedNode::kSuccess;
    const bool waited = fails && random_() % 3 == 0;
    node.on(agent::WorkerExited{rank, code, waited, waited && random_() % 2 == 0});
  }

  void hang() {
    const auto ranks = running();
    if (ranks.empty()) return;
    agent::FoundHang hang;
    hang.local_rank = ranks.front();
    hang.message = "silent";
    node.on(hang);
  }

  void pass(agent::Clock::duration time) {
    node.pass(time);
    if (core_.deadline() && *core_.deadline() <= node.now) tell(rdzv::DeadlinePassed{});
  }

  void tell(const rdzv::MembershipEvent& event) {
    for (rdzv::Send& send : core_.on(event, node.now).sends)
      inbox_.push_back(std::move(send.message));
  }

  /// Takes what the node sent to the core, and checks what is always true.
  void look() {
    for (proto::AgentMessage& message : std::exchange(node.sent, {}))
      tell(rdzv::FromAgent{"a", std::move(message)});
    for (const std::string& what : node.took()) ended += what.starts_with("end the job") ? 1 : 0;
    const auto deadline = node.machine.deadline();
    if (!deadline) return;
    // Time that has passed is an event once: a shell with a timer must not spin.
    node.pass(0s);
    CHECK((!node.machine.deadline() || *node.machine.deadline() > node.now));
    const NodeState state = node.machine.state();
    const bool waits = state == NodeState::running || state == NodeState::stopping ||
                       state == NodeState::finishing || state == NodeState::clearing ||
                       (state == NodeState::done && node.config.rendezvous);
    CHECK((waits || !node.machine.deadline()));
  }

  rdzv::Membership core_;
  bool asked_to_end_ = false;
  std::deque<proto::MembershipMessage> inbox_;
};

}  // namespace

TEST_CASE("any history of a job of one node ends once, with no two rounds at one time") {
  int rounds = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Job job(seed);
    for (int i = 0; i < 120 && job.node.machine.state() != NodeState::over; ++i) job.step();
    job.end();
    REQUIRE(job.node.machine.state() == NodeState::over);
    REQUIRE(job.ended == 1);
    if (const auto* round = job.node.machine.round())
      rounds += static_cast<int>(round->round.number) + 1;
  }
  CHECK(rounds > 3000);  // else the histories are too short to show anything
}
