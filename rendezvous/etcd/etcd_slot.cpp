#include "rendezvous/etcd/etcd_slot.hpp"

namespace ddprun::rdzv {

EtcdTxn EtcdSlot::txn(const std::string& value, std::vector<EtcdChange> changes) const {
  EtcdTxn txn;
  txn.compares = {{EtcdCompare::What::create_revision, leader_key_, leader_revision_},
                  {EtcdCompare::What::mod_revision, key_, mod_revision_}};
  txn.changes = std::move(changes);
  txn.changes.push_back(EtcdPut{key_, value});
  txn.read_otherwise = {leader_key_, key_};
  return txn;
}

EtcdSlot::Outcome EtcdSlot::take(const EtcdTxnAnswer& answer, const std::string& value) {
  if (answer.succeeded) {
    mod_revision_ = answer.revision;
    return Outcome::done;
  }
  // Both were read in the transaction itself.
  if (answer.read.size() != 2) return Outcome::again;
  const auto& leader = answer.read[0];
  const auto& slot = answer.read[1];
  if (!leader || leader->create_revision != leader_revision_) return Outcome::lost;
  mod_revision_ = slot ? slot->mod_revision : 0;
  return slot && slot->value == value ? Outcome::done : Outcome::again;
}

}  // namespace ddprun::rdzv
