#include "rendezvous/shared/candidacy.hpp"

#include <algorithm>

#include "rendezvous/etcd/etcd_keys.hpp"

namespace ddprun::rdzv {

std::optional<SlotRequest> Candidacy::next(Clock::time_point now) const {
  if (now < next_at_) return std::nullopt;
  switch (step_) {
    case Step::look:
      return LookAtSlots{};
    case Step::grant:
      return GrantSlotLease{};
    case Step::claim:
      return ClaimSlot{slot_, lease_};
    case Step::renew:
      break;
  }
  return RenewSlot{lease_};
}

EtcdQuery Candidacy::look() const { return {folder(), EtcdKeys::end_of(folder()), kSlots, 0}; }

EtcdTxn Candidacy::claim(const ClaimSlot& request, const std::string& place) const {
  EtcdTxn txn;
  txn.compares = {{EtcdCompare::What::create_revision, key(request.slot), 0}};
  txn.changes = {EtcdPut{key(request.slot), place, request.lease}};
  txn.read_otherwise = {key(request.slot)};
  return txn;
}

void Candidacy::looked(const EtcdPage& page, Clock::time_point now) {
  for (int slot = 1; slot <= kSlots; ++slot) {
    const bool is_taken = std::any_of(page.keys.begin(), page.keys.end(),
                                      [&](const auto& one) { return one.key == key(slot); });
    if (is_taken) continue;
    slot_ = slot;
    step_ = lease_ != 0 && now < lease_until_ ? Step::claim : Step::grant;
    next_at_ = now;
    return;
  }
  look_again(now + settings_.look_every);
}

void Candidacy::granted(const EtcdGrant& grant, Clock::time_point sent) {
  lease_ = grant.lease;
  lease_until_ = sent + std::min(grant.ttl, settings_.ttl);
  step_ = Step::claim;
}

void Candidacy::claimed(const EtcdTxnAnswer& answer, Clock::time_point now) {
  // An earlier try may have been ours, with a lost answer.
  const bool is_ours = answer.succeeded ||
                       (!answer.read.empty() && answer.read[0] && answer.read[0]->lease == lease_);
  if (!is_ours) return look_again(now);  // another agent was faster; there may be another slot
  is_candidate_ = true;
  step_ = Step::renew;
  next_at_ = now + settings_.period;
}

void Candidacy::renewed(std::chrono::seconds ttl, Clock::time_point sent) {
  if (ttl.count() == 0) {
    lease_ = 0;
    return look_again(sent);
  }
  next_at_ = sent + settings_.period;
}

/// A claim is repeated as it was while its lease lasts: it may have been granted, with a lost
/// answer, and no second lease is needed.
void Candidacy::failed(Clock::time_point now) {
  const bool is_over = step_ == Step::claim && now >= lease_until_;
  if (is_over) lease_ = 0;
  if (is_over || step_ == Step::grant) step_ = Step::look;
  next_at_ = now + settings_.retry;
}

void Candidacy::gave_up(Clock::time_point now) {
  is_candidate_ = false;
  lease_ = 0;
  look_again(now + settings_.look_every);
}

void Candidacy::look_again(Clock::time_point at) {
  step_ = Step::look;
  next_at_ = at;
}

}  // namespace ddprun::rdzv
