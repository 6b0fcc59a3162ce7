// A key by which the leader writes: each write is one transaction that holds only while the leader
// key is still the leader's own, and only once, however often it is sent. A write of which the
// answer was lost is recognized, and a copy of it that arrives late does nothing. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/etcd.hpp"

namespace ddprun::rdzv {

class EtcdSlot {
 public:
  enum class Outcome {
    done,   ///< it happened, now or at an earlier try
    lost,   ///< the leader key is gone or another one's: nothing happened
    again,  ///< the key was not as expected: to be sent again
  };

  /// `leader_revision`: the leader key's create_revision, of this leader. `mod_revision`: the
  /// slot's; 0: it does not exist.
  EtcdSlot(std::string leader_key, EtcdRevision leader_revision, std::string key,
           EtcdRevision mod_revision)
      : leader_key_(std::move(leader_key)),
        leader_revision_(leader_revision),
        key_(std::move(key)),
        mod_revision_(mod_revision) {}

  /// `value`: of the slot; each content of a write has another one, and each leader has others.
  [[nodiscard]] EtcdTxn txn(const std::string& value, std::vector<EtcdChange> changes) const;
  Outcome take(const EtcdTxnAnswer& answer, const std::string& value);

  [[nodiscard]] EtcdRevision leader_revision() const { return leader_revision_; }

 private:
  std::string leader_key_;
  EtcdRevision leader_revision_;
  std::string key_;
  EtcdRevision mod_revision_;
};

}  // namespace ddprun::rdzv
