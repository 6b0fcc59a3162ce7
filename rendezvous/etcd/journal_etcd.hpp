// A journal in etcd (rendezvous/etcd/etcd_keys.hpp), of the rdzvd that leads. A group commit is one
// transaction, which counts only while the leader key is the leader's own.
//
// Only what is durable was told to anybody. So a commit waits for etcd as long as the leadership
// lasts; when it ends, nothing more is written nor answered, and the next leader reads the rest.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_past.hpp"
#include "rendezvous/etcd/etcd_slot.hpp"

namespace ddprun::rdzv {

/// The leadership as the journal sees it; kept up by another thread.
class EtcdTenure {
 public:
  EtcdTenure() = default;
  EtcdTenure(const EtcdTenure&) = delete;
  EtcdTenure& operator=(const EtcdTenure&) = delete;
  virtual ~EtcdTenure() = default;

  /// By the clock of now.
  [[nodiscard]] virtual bool may_answer() const = 0;
  /// Nothing more can become durable: it is lost, or this process ends.
  [[nodiscard]] virtual bool is_over() const = 0;
  virtual void lose(const std::string& reason) = 0;
};

class EtcdJournal : public Journal {
 public:
  struct Settings {
    std::string prefix;
    EtcdRevision leader_revision = 0;  ///< of the leader's key, when it was created
    Clock::time_point boot_time;       ///< now, by base/boot_clock.hpp
    std::chrono::milliseconds call_limit{2'000};
    std::function<void()> pause;  ///< between a fault and the next try
  };

  /// Reads what is there as of one revision. Null: the tenure is over.
  static std::shared_ptr<EtcdJournal> open(std::unique_ptr<Etcd> etcd, Settings settings,
                                           std::shared_ptr<EtcdTenure> tenure);

  JournalPast take_past() override { return std::move(past_); }
  void append(const JobRecord& record) override { records_.append(record); }
  void replace(const JobSnapshot& snapshot) override { records_.replace(snapshot); }
  void forget(const std::string& run_id) override { records_.forget(run_id); }
  std::vector<std::string> commit() override;
  [[nodiscard]] bool is_durable() const override { return unsent_.empty(); }
  [[nodiscard]] bool may_answer() override;

  /// As JournalPast's.
  [[nodiscard]] Clock::duration clock_shift() const { return clock_shift_; }
  /// The revision of the clock's key; 0: there is none.
  [[nodiscard]] EtcdRevision clock_revision() const { return clock_revision_; }

 private:
  EtcdJournal(std::unique_ptr<Etcd> etcd, Settings settings, std::shared_ptr<EtcdTenure> tenure)
      : settings_(std::move(settings)),
        keys_(settings_.prefix),
        etcd_(std::move(etcd)),
        tenure_(std::move(tenure)),
        records_(keys_),
        slot_(keys_.leader(), settings_.leader_revision, keys_.turn(), 0) {}

  bool read_past();
  EtcdResult<std::vector<EtcdKeyValue>> read_all();
  EtcdResult<EtcdRevision> read_range(EtcdQuery query, std::vector<EtcdKeyValue>& keys);
  bool send(const std::vector<EtcdChange>& group, std::vector<std::string>& lines);
  [[nodiscard]] std::string turn_value() const;

  const Settings settings_;
  const EtcdKeys keys_;
  const std::unique_ptr<Etcd> etcd_;
  const std::shared_ptr<EtcdTenure> tenure_;
  EtcdRecords records_;
  EtcdSlot slot_;
  std::uint64_t turns_ = 0;
  std::deque<std::vector<EtcdChange>> unsent_;
  JournalPast past_;
  Clock::duration clock_shift_{0};
  EtcdRevision clock_revision_ = 0;
};

}  // namespace ddprun::rdzv
