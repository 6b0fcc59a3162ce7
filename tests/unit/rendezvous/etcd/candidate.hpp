// One rdzvd as far as its leadership goes, over an etcd in memory, driven by that one's clock.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "rendezvous/etcd/leadership.hpp"
#include "tests/unit/rendezvous/etcd/model_etcd.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

class Candidate {
 public:
  Candidate(std::shared_ptr<ModelEtcd> etcd, const std::string& place)
      : etcd_(etcd), client_(etcd), settings_{"p", place}, leadership_(settings_, etcd->now) {}

  /// One request, if one is due.
  bool ask_one() {
    const auto request = leadership_.next(etcd_->now);
    if (request) ask(*request);
    return request.has_value();
  }
  /// All that is due now.
  void step() {
    for (int i = 0; i < 20; ++i) {
      if (!ask_one()) return;
    }
    FAIL("it asks without end");
  }
  void run(rdzv::Clock::duration time) {
    for (const auto end = etcd_->now + time; etcd_->now < end; etcd_->now += 50ms) step();
    step();
  }
  void elect() {
    step();
    REQUIRE(leadership_.role() == rdzv::Leadership::Role::elected);
  }
  void lead(rdzv::Clock::duration shift = 0s) {
    elect();
    leadership_.lead(shift, clock_revision());
    step();
    REQUIRE(leadership_.answers_until().has_value());
  }
  [[nodiscard]] bool may_answer() const {
    return leadership_.answers_until() && etcd_->now < *leadership_.answers_until();
  }
  [[nodiscard]] rdzv::EtcdRevision clock_revision() const {
    const rdzv::EtcdPage page = etcd_->range({"p/clock", "", 1, 0});
    return page.keys.empty() ? 0 : page.keys[0].mod_revision;
  }
  rdzv::Leadership& operator*() { return leadership_; }
  rdzv::Leadership* operator->() { return &leadership_; }

 private:
  void ask(const rdzv::LeaderRequest& request) {
    const auto sent = etcd_->now;
    const auto take = [&](const auto& answer, auto then) {
      answer ? then(*answer) : leadership_.failed(answer.error(), etcd_->now);
    };
    if (std::holds_alternative<rdzv::LookForLeader>(request)) {
      take(client_.range(rdzv::Leadership::look_of(settings_), 1s),
           [&](const rdzv::EtcdPage& page) { leadership_.looked(page, etcd_->now); });
    } else if (std::holds_alternative<rdzv::GrantLease>(request)) {
      take(client_.grant(5s, 1s),
           [&](const rdzv::EtcdGrant& grant) { leadership_.granted(grant, sent); });
    } else if (const auto* claim = std::get_if<rdzv::ClaimLeader>(&request)) {
      take(client_.txn(rdzv::Leadership::claim_of(settings_, claim->lease), 1s),
           [&](const rdzv::EtcdTxnAnswer& answer) { leadership_.claimed(answer, etcd_->now); });
    } else if (const auto* renew = std::get_if<rdzv::RenewLease>(&request)) {
      take(client_.keep_alive(renew->lease, 1s),
           [&](std::chrono::seconds ttl) { leadership_.renewed(ttl, sent); });
    } else if (const auto* confirm = std::get_if<rdzv::ConfirmLeader>(&request)) {
      take(client_.txn(confirm->txn, 1s),
           [&](const rdzv::EtcdTxnAnswer& answer) { leadership_.confirmed(answer, etcd_->now); });
    } else if (const auto* compact = std::get_if<rdzv::CompactHistory>(&request)) {
      take(client_.compact(compact->before, 1s), [&](std::monostate) { leadership_.compacted(); });
    } else {
      take(client_.revoke(std::get<rdzv::DropLease>(request).lease, 1s),
           [&](std::monostate) { leadership_.dropped(); });
    }
  }

  const std::shared_ptr<ModelEtcd> etcd_;
  ModelClient client_;
  const rdzv::LeadershipSettings settings_;
  rdzv::Leadership leadership_;
};

}  // namespace ddprun::test
