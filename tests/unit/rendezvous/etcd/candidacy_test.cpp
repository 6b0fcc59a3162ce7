// Which agents of a run host a candidate for its service: at most three at one time, and another
// one where one of them ends.
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>

#include "rendezvous/shared/candidacy.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Fate = ModelEtcd::Fate;

class Agent {
 public:
  Agent(std::shared_ptr<ModelEtcd> etcd, std::string place)
      : etcd_(etcd), client_(etcd), place_(std::move(place)), candidacy_({"p"}, etcd->now) {}

  /// All that is due now.
  void step() {
    for (int i = 0; i < 20; ++i) {
      const auto request = candidacy_.next(etcd_->now);
      if (!request) return;
      ask(*request);
    }
    FAIL("it asks without end");
  }
  Candidacy* operator->() { return &candidacy_; }

 private:
  template <class Answer, class Take>
  void take(const EtcdResult<Answer>& answer, Take take) {
    answer ? take(*answer) : candidacy_.failed(etcd_->now);
  }
  void ask(const SlotRequest& request) {
    const auto sent = etcd_->now;
    if (std::holds_alternative<LookAtSlots>(request)) {
      take(client_.range(candidacy_.look(), 1s),
           [&](const EtcdPage& page) { candidacy_.looked(page, etcd_->now); });
    } else if (std::holds_alternative<GrantSlotLease>(request)) {
      take(client_.grant(CandidacySettings{}.ttl, 1s),
           [&](const EtcdGrant& grant) { candidacy_.granted(grant, sent); });
    } else if (const auto* claim = std::get_if<ClaimSlot>(&request)) {
      take(client_.txn(candidacy_.claim(*claim, place_), 1s),
           [&](const EtcdTxnAnswer& answer) { candidacy_.claimed(answer, etcd_->now); });
    } else {
      take(client_.keep_alive(std::get<RenewSlot>(request).lease, 1s),
           [&](std::chrono::seconds ttl) { candidacy_.renewed(ttl, sent); });
    }
  }

  const std::shared_ptr<ModelEtcd> etcd_;
  ModelClient client_;
  const std::string place_;
  Candidacy candidacy_;
};

struct Agents {
  explicit Agents(int count) {
    for (int i = 0; i < count; ++i) agents.emplace_back(etcd, "a" + std::to_string(i) + ":1");
  }
  void run(Clock::duration time, std::size_t from = 0) {
    for (const auto end = etcd->now + time; etcd->now < end; etcd->now += 100ms)
      for (std::size_t i = from; i < agents.size(); ++i) agents[i].step();
  }
  std::string slot(int number) { return etcd->value("p/candidates/" + std::to_string(number)); }

  std::shared_ptr<ModelEtcd> etcd = std::make_shared<ModelEtcd>();
  std::deque<Agent> agents;
};

}  // namespace

TEST_CASE("the first three agents of a run host a candidate, and keep their slots") {
  Agents job(5);
  job.run(60s);
  for (int i = 0; i < 5; ++i) CHECK(job.agents[i]->is_candidate() == (i < 3));
  for (int i = 0; i < 3; ++i) CHECK(job.slot(i + 1) == "a" + std::to_string(i) + ":1");
  CHECK(job.agents[4]->lease() == 0);
}

TEST_CASE("another agent takes the slot of one that has ended") {
  Agents job(5);
  job.run(20s);
  const int txns = job.etcd->txns;
  job.run(25s, 1);  // the first one is gone
  CHECK(job.slot(1) == "a3:1");
  CHECK(job.agents[3]->is_candidate());
  CHECK_FALSE(job.agents[4]->is_candidate());
  CHECK(job.etcd->txns == txns + 1);  // agents that wait write nothing
}

TEST_CASE("two agents that see the same free slot do not share it") {
  Agents job(2);
  // Both have looked before one claims.
  while (!std::holds_alternative<ClaimSlot>(
      job.agents[0]->next(job.etcd->now).value_or(LookAtSlots{}))) {
    const auto request = job.agents[0]->next(job.etcd->now).value();
    if (std::holds_alternative<LookAtSlots>(request)) {
      job.agents[0]->looked(job.etcd->range(job.agents[0]->look()), job.etcd->now);
    } else {
      job.agents[0]->granted(job.etcd->grant(10s), job.etcd->now);
    }
  }
  job.agents[1].step();
  job.agents[0].step();
  CHECK(job.slot(1) == "a1:1");
  CHECK(job.slot(2) == "a0:1");
}

TEST_CASE("a claim with a lost answer is known to be one's own") {
  Agents job(1);
  const auto claimed = [&] {
    job.agents[0]->looked(job.etcd->range(job.agents[0]->look()), job.etcd->now);
    job.agents[0]->granted(job.etcd->grant(10s), job.etcd->now);
    return std::get<ClaimSlot>(job.agents[0]->next(job.etcd->now).value());
  }();
  const EtcdTxn txn = job.agents[0]->claim(claimed, "a0:1");
  job.etcd->txn(txn);  // its answer is lost, and it is sent again
  job.agents[0]->claimed(job.etcd->txn(txn), job.etcd->now);
  CHECK(job.agents[0]->is_candidate());
  CHECK(job.agents[0]->lease() != 0);
}

TEST_CASE("one that was stopped for longer than its lease stays a candidate, and asks for a slot") {
  Agents job(4);
  job.run(20s);
  job.run(30s, 1);  // it is stopped meanwhile
  CHECK(job.slot(1) == "a3:1");
  job.run(30s);
  CHECK(job.agents[0]->is_candidate());
  CHECK(job.agents[0]->lease() == 0);
  CHECK(job.slot(1) == "a3:1");
}

TEST_CASE("faults of etcd delay a candidate and its renewals, and end nothing") {
  Agents job(3);
  int requests = 0;
  job.etcd->fate = [&] {
    switch (++requests % 4) {
      case 0:
        return Fate::lost;
      case 1:
        return Fate::answer_lost;
      default:
        return Fate::answered;
    }
  };
  job.run(120s);
  job.etcd->fate = nullptr;
  job.run(20s);
  for (int i = 0; i < 3; ++i) CHECK(job.agents[i]->is_candidate());
  for (int slot = 1; slot <= 3; ++slot) CHECK_FALSE(job.slot(slot).empty());
}

TEST_CASE("a claim that fails is repeated with the same lease while that lasts") {
  Agents job(1);
  Candidacy& agent = *job.agents[0].operator->();
  Clock::time_point& now = job.etcd->now;
  agent.looked({}, now);
  agent.granted(job.etcd->grant(10s), now);
  const EtcdLease lease = agent.lease();
  for (const auto end = now + 10s; now < end; now += 500ms) {
    const auto request = agent.next(now);
    REQUIRE(request.has_value());
    REQUIRE(std::holds_alternative<ClaimSlot>(*request));
    CHECK(std::get<ClaimSlot>(*request).lease == lease);
    agent.failed(now);
  }
  REQUIRE(std::holds_alternative<ClaimSlot>(agent.next(now).value()));
  agent.failed(now);
  CHECK(agent.lease() == 0);
  now += 500ms;
  CHECK(std::holds_alternative<LookAtSlots>(agent.next(now).value()));
}

TEST_CASE("the lease of a claim that came too late is for the next claim") {
  Agents job(1);
  Candidacy& agent = *job.agents[0].operator->();
  agent.looked({}, job.etcd->now);
  agent.granted(job.etcd->grant(10s), job.etcd->now);
  const EtcdLease lease = agent.lease();
  job.etcd->put("p/candidates/1", "other:1");
  job.agents[0].step();
  CHECK(job.slot(2) == "a0:1");
  CHECK(agent.lease() == lease);
}

TEST_CASE("one that cannot host gives its slot up, and asks for one again") {
  Agents job(1);
  job.run(1s);
  Candidacy& agent = *job.agents[0].operator->();
  REQUIRE(agent.is_candidate());
  job.etcd->revoke(agent.lease());
  agent.gave_up(job.etcd->now);
  CHECK_FALSE(agent.is_candidate());
  CHECK(agent.lease() == 0);
  job.run(9s);
  CHECK(job.slot(1).empty());
  job.run(2s);
  CHECK(job.slot(1) == "a0:1");
  CHECK(agent.is_candidate());
}
