// How many transactions of etcd a round of a large job takes: the service itself, with a journal in
// an etcd in memory.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bench/service/sim_agent.hpp"
#include "bench/support/machine.hpp"
#include "rendezvous/etcd/journal_etcd.hpp"
#include "rendezvous/service/service_server.hpp"
#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using bench::SimAgent;

namespace {

constexpr int kAgents = 500;

/// The service commits once in a turn of its loop, and a turn takes so many events from the kernel
/// (Asio's epoll_reactor).
constexpr int kEventsOfTurn = 128;

/// For one message of each agent: the first may be alone in its turn, and the last turn may lack a
/// place for one.
constexpr int transactions_max(int agents) { return (agents - 1) / kEventsOfTurn + 1 + 2; }

/// All join, and all say that they have started.
constexpr int forming_max(int agents) { return 2 * transactions_max(agents); }
/// One worker fails; all have stopped and join, and all say that they have started.
constexpr int restart_max(int agents) { return 1 + 2 * transactions_max(agents); }
static_assert(restart_max(10'000) <= 200, "the promise for 10,000 agents");

struct Tenure : rdzv::EtcdTenure {
  std::atomic<bool> over{false};
  [[nodiscard]] bool may_answer() const override { return !over; }
  [[nodiscard]] bool is_over() const override { return over; }
  void lose(const std::string&) override { over = true; }
};

/// All agents of a job. Each of its members may be called by any thread.
class Agents {
 public:
  void connect(rdzv::ServiceServer& server) {
    const std::lock_guard lock(mutex_);
    job_.nodes = kAgents;
    for (std::uint32_t i = 0; i < kAgents; ++i) {
      auto connection = server.connect_locally();
      REQUIRE(connection.has_value());
      members_.push_back({std::make_unique<SimAgent>(job_, i), std::move(*connection), ""});
    }
  }
  /// They hear what has arrived. None says anything before all have something to say, so that the
  /// service never gets ahead of a few of them.
  void play() {
    const std::lock_guard lock(mutex_);
    bool all_speak = true;
    for (Member& member : members_) {
      hear(member);
      all_speak = all_speak && !member.unsent.empty();
    }
    if (!all_speak) return;
    for (Member& member : members_) send(member);
  }
  void fail_one() {
    const std::lock_guard lock(mutex_);
    Member& member = members_[kAgents / 2];
    member.agent->fail_worker();
    hear(member);
    send(member);
  }
  /// Their answers come after all that was said before is durable.
  void keep_alive() {
    const std::lock_guard lock(mutex_);
    for (Member& member : members_) member.agent->keep_alive();
  }
  bool all(const std::function<bool(const SimAgent&)>& holds) {
    const std::lock_guard lock(mutex_);
    return std::all_of(members_.begin(), members_.end(),
                       [&](const Member& member) { return holds(*member.agent); });
  }
  bool is_cut() {
    const std::lock_guard lock(mutex_);
    return is_cut_;
  }

 private:
  struct Member {
    std::unique_ptr<SimAgent> agent;
    UniqueFd fd;
    std::string unsent;
  };

  void hear(Member& member) {
    ssize_t count = 0;
    while ((count = recv(member.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT)) > 0)
      member.agent->take({buffer_.data(), static_cast<std::size_t>(count)});
    if (count == 0) is_cut_ = true;
    member.unsent += member.agent->take_output();
  }
  void send(Member& member) {
    const std::string output = std::exchange(member.unsent, {});
    const ssize_t sent =
        ::send(member.fd.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(output.size())) is_cut_ = true;
  }

  std::mutex mutex_;
  bench::SimJob job_;
  std::vector<Member> members_;
  std::vector<char> buffer_ = std::vector<char>(64 * 1024);
  bool is_cut_ = false;  // a connection ended, or took no more bytes
};

}  // namespace

TEST_CASE("a round of many agents takes few transactions of etcd, not one for each agent") {
  if (bench::raise_open_files() < 2 * kAgents + 100) skip("too few open files are allowed here");
  Agents agents;
  std::atomic<int> transactions{0};
  const auto etcd = std::make_shared<ModelEtcd>();
  etcd->put("p/leader", "x:1");
  rdzv::EtcdJournal::Settings journal;
  journal.prefix = "p";
  journal.leader_revision = etcd->revision();
  journal.pause = [] {};
  rdzv::ServiceServerSettings settings;
  settings.journal = rdzv::EtcdJournal::open(std::make_unique<ModelClient>(etcd), journal,
                                             std::make_shared<Tenure>());
  REQUIRE(settings.journal != nullptr);
  // An etcd that is slow beside the agents: what they have to say arrives before its answer.
  etcd->on_answer = [&, before = etcd->txns] {
    transactions = etcd->txns - before;
    agents.play();
  };
  std::atomic<int> warnings{0};
  settings.on_warning = [&](const std::string&) { ++warnings; };
  settings.on_info = [](const std::string&) {};
  auto server = rdzv::ServiceServer::start({}, std::move(settings));
  REQUIRE(server.has_value());

  const auto play_until = [&](const std::function<bool(const SimAgent&)>& holds) {
    REQUIRE(eventually(
        [&] {
          agents.play();
          return agents.is_cut() || agents.all(holds);
        },
        30s));
  };
  const auto reach_round = [&](proto::RoundNumber number) {
    const int before = transactions;
    play_until([=](const SimAgent& agent) {
      return agent.round().has_value() && agent.round()->number == number;
    });
    agents.keep_alive();
    play_until([](const SimAgent& agent) { return agent.unanswered_keep_alives() == 0; });
    return transactions - before;
  };

  agents.connect(*server);
  const int forming = reach_round(0);
  agents.fail_one();
  const int restart = reach_round(1);
  server->end();
  INFO(forming << " transactions to form, " << restart << " to restart");
  CHECK_FALSE(agents.is_cut());
  CHECK(warnings == 0);
  CHECK(forming <= forming_max(kAgents));
  CHECK(restart <= restart_max(kAgents));
  CHECK(restart > 2);  // the journal was written
}
