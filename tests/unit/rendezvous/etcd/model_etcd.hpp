// An etcd in memory: keys with revisions, leases by a clock that the test moves, and faults: lost
// requests, lost answers, answers that come late.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/service/job.hpp"

namespace ddprun::test {

class ModelEtcd {
 public:
  rdzv::Clock::time_point now{std::chrono::hours(7)};
  int txns = 0;
  std::set<std::string> read;       ///< keys of which somebody has got the value
  std::vector<rdzv::EtcdTxn> sent;  ///< of which a copy may arrive late
  bool is_full = false;
  rdzv::EtcdRevision compacted = 0;
  std::int64_t page_keys_max = 1'000;  ///< more are too large
  /// Called before each request; what it returns happens to the request.
  enum class Fate { answered, lost, answer_lost };
  std::function<Fate()> fate;
  std::function<void()> on_answer;  ///< between what a request does and its answer
  /// How long a lease lasts that was granted for `ttl`, where the clock of the member that leads
  /// the others runs too fast or too slowly. Empty: it is right.
  std::function<rdzv::Clock::duration(std::chrono::seconds ttl)> lease_lasts;

  rdzv::EtcdPage range(const rdzv::EtcdQuery& query) {
    expire();
    rdzv::EtcdPage page;
    page.revision = revision_;
    const std::string end = query.end.empty() ? query.key + '\0' : query.end;
    for (auto at = keys_.lower_bound(query.key); at != keys_.end() && at->first < end; ++at) {
      if (static_cast<std::int64_t>(page.keys.size()) == query.limit) {
        page.more = true;
        break;
      }
      page.keys.push_back(at->second);
      read.insert(at->first);
    }
    return page;
  }

  rdzv::EtcdTxnAnswer txn(const rdzv::EtcdTxn& txn) {
    expire();
    ++txns;
    sent.push_back(txn);
    rdzv::EtcdTxnAnswer answer;
    answer.succeeded = holds(txn);
    if (answer.succeeded) {
      ++revision_;
      for (const auto& change : txn.changes) apply(change);
    } else {
      for (const std::string& key : txn.read_otherwise) {
        const auto found = keys_.find(key);
        answer.read.push_back(found == keys_.end() ? std::nullopt : std::optional(found->second));
      }
    }
    answer.revision = revision_;
    return answer;
  }

  /// As txn(), but refused where it would put a key with a lease that is over.
  rdzv::EtcdResult<rdzv::EtcdTxnAnswer> checked_txn(const rdzv::EtcdTxn& txn) {
    expire();
    const bool lacks_lease =
        std::any_of(txn.changes.begin(), txn.changes.end(), [&](const auto& change) {
          const auto* put = std::get_if<rdzv::EtcdPut>(&change);
          return put != nullptr && put->lease != 0 && !leases_.contains(put->lease);
        });
    if (lacks_lease && holds(txn))
      return rdzv::EtcdFault{rdzv::EtcdFault::Kind::refused, "requested lease not found"};
    return this->txn(txn);
  }

  rdzv::EtcdGrant grant(std::chrono::seconds ttl) {
    leases_[++last_lease_] = {ttl, end_of(ttl)};
    return {last_lease_, ttl};
  }
  std::chrono::seconds keep_alive(rdzv::EtcdLease lease) {
    expire();
    const auto found = leases_.find(lease);
    if (found == leases_.end()) return std::chrono::seconds(0);
    found->second.until = end_of(found->second.ttl);
    return found->second.ttl;
  }
  void revoke(rdzv::EtcdLease lease) { end(lease); }
  /// As one that begins to lead the members: each lease has its whole time again, also one that was
  /// over while none led.
  void extend_leases() {
    for (auto& [id, lease] : leases_) lease.until = end_of(lease.ttl);
  }

  void put(const std::string& key, const std::string& value) {
    txn({{}, {rdzv::EtcdPut{key, value}}, {}});
  }
  void remove(const std::string& key) { txn({{}, {rdzv::EtcdDelete{key, ""}}, {}}); }
  /// Empty: there is none.
  std::string value(const std::string& key) {
    expire();
    const auto found = keys_.find(key);
    return found == keys_.end() ? "" : found->second.value;
  }
  std::vector<std::string> keys() {
    expire();
    std::vector<std::string> names;
    for (const auto& [name, one] : keys_) names.push_back(name);
    return names;
  }
  rdzv::EtcdRevision revision() const { return revision_; }

 private:
  struct Lease {
    std::chrono::seconds ttl{0};
    rdzv::Clock::time_point until;
  };

  [[nodiscard]] rdzv::Clock::time_point end_of(std::chrono::seconds ttl) const {
    return now + (lease_lasts ? lease_lasts(ttl) : ttl);
  }
  [[nodiscard]] bool holds(const rdzv::EtcdTxn& txn) const {
    return std::all_of(txn.compares.begin(), txn.compares.end(), [&](const auto& compare) {
      const auto found = keys_.find(compare.key);
      if (found == keys_.end()) return compare.revision == 0;
      return compare.revision == (compare.what == rdzv::EtcdCompare::What::create_revision
                                      ? found->second.create_revision
                                      : found->second.mod_revision);
    });
  }
  void apply(const rdzv::EtcdChange& change) {
    if (const auto* put = std::get_if<rdzv::EtcdPut>(&change)) {
      rdzv::EtcdKeyValue& one = keys_[put->key];
      if (one.key.empty()) one.create_revision = revision_;
      one.key = put->key;
      one.value = put->value;
      one.mod_revision = revision_;
      one.lease = put->lease;
      return;
    }
    const auto& range = std::get<rdzv::EtcdDelete>(change);
    const std::string end = range.end.empty() ? range.key + '\0' : range.end;
    keys_.erase(keys_.lower_bound(range.key), keys_.lower_bound(end));
  }
  void expire() {
    std::vector<rdzv::EtcdLease> over;
    for (const auto& [id, lease] : leases_)
      if (lease.until <= now) over.push_back(id);
    for (const rdzv::EtcdLease id : over) end(id);
  }
  void end(rdzv::EtcdLease id) {
    leases_.erase(id);
    if (std::erase_if(keys_, [&](const auto& one) { return one.second.lease == id; }) > 0)
      ++revision_;
  }

  std::map<std::string, rdzv::EtcdKeyValue> keys_;
  std::map<rdzv::EtcdLease, Lease> leases_;
  rdzv::EtcdLease last_lease_ = 100;
  rdzv::EtcdRevision revision_ = 1;
};

/// A client of the model.
class ModelClient : public rdzv::Etcd {
 public:
  explicit ModelClient(std::shared_ptr<ModelEtcd> model) : model_(std::move(model)) {}

  rdzv::EtcdResult<rdzv::EtcdPage> range(const rdzv::EtcdQuery& query, Limit) override {
    if (query.revision != 0 && query.revision < model_->compacted)
      return rdzv::EtcdFault{rdzv::EtcdFault::Kind::compacted, "compacted"};
    if (query.limit > model_->page_keys_max)
      return rdzv::EtcdFault{rdzv::EtcdFault::Kind::too_large, "too large"};
    return asked<rdzv::EtcdPage>([&] { return model_->range(query); });
  }
  rdzv::EtcdResult<rdzv::EtcdTxnAnswer> txn(const rdzv::EtcdTxn& txn, Limit) override {
    if (model_->is_full) return rdzv::EtcdFault{rdzv::EtcdFault::Kind::no_space, "full"};
    return asked<rdzv::EtcdTxnAnswer>([&] { return model_->checked_txn(txn); });
  }
  rdzv::EtcdResult<rdzv::EtcdGrant> grant(std::chrono::seconds ttl, Limit) override {
    return asked<rdzv::EtcdGrant>([&] { return model_->grant(ttl); });
  }
  rdzv::EtcdResult<std::chrono::seconds> keep_alive(rdzv::EtcdLease lease, Limit) override {
    return asked<std::chrono::seconds>([&] { return model_->keep_alive(lease); });
  }
  rdzv::EtcdResult<std::monostate> revoke(rdzv::EtcdLease lease, Limit) override {
    return asked<std::monostate>([&] {
      model_->revoke(lease);
      return std::monostate{};
    });
  }
  rdzv::EtcdResult<std::monostate> compact(rdzv::EtcdRevision revision, Limit) override {
    return asked<std::monostate>([&] {
      model_->compacted = revision;
      return std::monostate{};
    });
  }

 private:
  template <class Answer, class Ask>
  rdzv::EtcdResult<Answer> asked(Ask ask) {
    using Fate = ModelEtcd::Fate;
    const Fate fate = model_->fate ? model_->fate() : Fate::answered;
    const rdzv::EtcdFault fault{rdzv::EtcdFault::Kind::unreachable, "no answer"};
    if (fate == Fate::lost) return fault;
    const rdzv::EtcdResult<Answer> answer = ask();
    if (model_->on_answer) model_->on_answer();
    if (fate == Fate::answer_lost) return fault;
    return answer;
  }

  const std::shared_ptr<ModelEtcd> model_;
};

}  // namespace ddprun::test
