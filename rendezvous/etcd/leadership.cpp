#include "rendezvous/etcd/leadership.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/number_in.hpp"

namespace ddprun::rdzv {

namespace {

constexpr const char* kOver =
    "its lease in etcd is over: no member confirmed it in time, or this process was stopped";
constexpr const char* kTaken = "another one has taken its place, or its key was deleted";

}  // namespace

Leadership::Leadership(LeadershipSettings settings, Clock::time_point now)
    : settings_(std::move(settings)), keys_(settings_.prefix), next_at_(now) {}

EtcdTxn Leadership::claim_of(const LeadershipSettings& settings, EtcdLease lease) {
  const std::string key = EtcdKeys(settings.prefix).leader();
  EtcdTxn txn;
  txn.compares = {{EtcdCompare::What::create_revision, key, 0}};
  txn.changes = {EtcdPut{key, settings.place, lease}};
  txn.read_otherwise = {key};
  return txn;
}

EtcdQuery Leadership::look_of(const LeadershipSettings& settings) {
  EtcdQuery query;
  query.key = EtcdKeys(settings.prefix).leader();
  return query;
}

// ---- what to ask ----

std::optional<LeaderRequest> Leadership::next(Clock::time_point now) {
  if (has_key() && now >= lease_until_) fall(kOver);
  if (step_ == Step::claim && now >= lease_until_) follow(now);
  if (now < next_at_) return std::nullopt;
  switch (step_) {
    case Step::look:
      return LookForLeader{};
    case Step::grant:
      return GrantLease{};
    case Step::claim:
      return ClaimLeader{lease_};
    case Step::renew:
      return RenewLease{lease_};
    case Step::confirm:
      clock_value_ = etcd_clock_value(lease_until_ + settings_.margin + clock_shift_, revision_);
      confirming_until_ = lease_until_;
      return ConfirmLeader{clock_slot_->txn(clock_value_, {})};
    case Step::compact:
      return CompactHistory{old_revision_};
    case Step::drop:
      return DropLease{lease_};
    case Step::rest:
      break;
  }
  return std::nullopt;
}

Clock::time_point Leadership::next_at() const {
  if (step_ == Step::rest) return Clock::time_point::max();
  return has_key() ? std::min(next_at_, lease_until_) : next_at_;
}

// ---- answers ----

void Leadership::looked(const EtcdPage& page, Clock::time_point now) {
  if (step_ != Step::look) return;
  if (page.keys.empty()) {
    leader_.clear();
    step_ = Step::grant;
    next_at_ = now;
    return;
  }
  leader_ = page.keys.front().value;
  follow(now + settings_.poll);
}

void Leadership::granted(const EtcdGrant& grant, Clock::time_point sent) {
  if (step_ != Step::grant) return;
  lease_ = grant.lease;
  lease_until_ = sent + std::min(grant.ttl, settings_.ttl) - settings_.margin;
  step_ = Step::claim;
}

void Leadership::claimed(const EtcdTxnAnswer& answer, Clock::time_point now) {
  if (step_ != Step::claim) return;
  const EtcdKeyValue* holder = !answer.read.empty() && answer.read[0] ? &*answer.read[0] : nullptr;
  // An earlier try may have been ours, with a lost answer.
  const bool is_ours =
      holder != nullptr && holder->lease == lease_ && holder->value == settings_.place;
  if (!answer.succeeded && !is_ours) {
    leader_ = holder != nullptr ? holder->value : "";
    step_ = Step::drop;
    next_at_ = now;
    return;
  }
  if (now >= lease_until_) return follow(now + settings_.poll);
  trouble_.clear();
  revision_ = answer.succeeded ? answer.revision : holder->create_revision;
  leader_ = settings_.place;
  role_ = Role::elected;
  new_revision_ = 0;
  compact_at_ = now;
  renew_later();
}

void Leadership::renewed(std::chrono::seconds ttl, Clock::time_point sent) {
  if (step_ != Step::renew || !has_key()) return;
  if (ttl.count() == 0) return fall(kOver);
  trouble_.clear();
  lease_until_ = sent + std::min(ttl, settings_.ttl) - settings_.margin;
  next_at_ = sent + settings_.period;
  if (role_ != Role::leading) return;
  step_ = Step::confirm;
  next_at_ = sent;
}

void Leadership::confirmed(const EtcdTxnAnswer& answer, Clock::time_point now) {
  if (step_ != Step::confirm || role_ != Role::leading) return;
  switch (clock_slot_->take(answer, clock_value_)) {
    case EtcdSlot::Outcome::lost:
      return fall(kTaken);
    case EtcdSlot::Outcome::again:
      return;
    case EtcdSlot::Outcome::done:
      break;
  }
  answers_until_ = confirming_until_;
  renew_later();
  if (now < compact_at_) return;
  compact_at_ = now + settings_.history;
  const EtcdRevision old = std::exchange(new_revision_, answer.revision);
  if (old == 0) return;
  old_revision_ = old;
  step_ = Step::compact;
  next_at_ = now;
}

/// Whatever came of it: there is a next time.
void Leadership::compacted() {
  if (step_ == Step::compact) renew_later();
}

void Leadership::renew_later() {
  step_ = Step::renew;
  next_at_ = lease_until_ + settings_.margin - settings_.ttl + settings_.period;
}

void Leadership::dropped() {
  if (step_ == Step::drop) follow(next_at_ + settings_.poll);
}

void Leadership::failed(const EtcdFault& fault, Clock::time_point now) {
  next_at_ = now + settings_.retry;
  if (has_key()) trouble_ = fault.reason;
  // Its lease ends by itself.
  if (step_ == Step::grant || step_ == Step::drop) follow(now + settings_.poll);
  if (step_ == Step::compact) renew_later();
  if (step_ == Step::look) next_at_ = now + settings_.poll;
}

// ---- the service ----

void Leadership::lead(Clock::duration clock_shift, EtcdRevision clock_revision) {
  if (role_ != Role::elected) return;
  clock_shift_ = clock_shift;
  clock_slot_.emplace(keys_.leader(), revision_, keys_.clock(), clock_revision);
  role_ = Role::leading;
  step_ = Step::confirm;
  next_at_ = Clock::time_point::min();
}

void Leadership::lose(std::string reason) {
  if (has_key()) fall(std::move(reason));
}

void Leadership::stand_again(Clock::time_point now) {
  if (role_ != Role::lost) return;
  role_ = Role::standby;
  // Its lease may not be over, and would keep the key.
  step_ = Step::drop;
  next_at_ = now;
}

std::optional<EtcdTxn> Leadership::resign(Clock::time_point now, Legacy legacy) {
  if (!has_key()) return std::nullopt;
  EtcdTxn txn;
  txn.compares = {{EtcdCompare::What::create_revision, keys_.leader(), revision_}};
  if (legacy == Legacy::removed && role_ == Role::leading) {
    txn.changes = {EtcdDelete{keys_.all(), EtcdKeys::end_of(keys_.all())}};
    return txn;
  }
  txn.changes = {EtcdDelete{keys_.leader(), ""}};
  if (role_ == Role::leading)
    txn.changes.push_back(EtcdPut{keys_.clock(), etcd_clock_value(now + clock_shift_, revision_)});
  return txn;
}

void Leadership::follow(Clock::time_point next_at) {
  step_ = Step::look;
  next_at_ = next_at;
}

void Leadership::fall(std::string reason) {
  reason_ = trouble_.empty() ? std::move(reason) : fmt::format("{} ({})", reason, trouble_);
  role_ = Role::lost;
  step_ = Step::rest;
  answers_until_.reset();
  clock_slot_.reset();
  leader_.clear();
}

std::string etcd_clock_value(Clock::time_point at, EtcdRevision leader) {
  return fmt::format("{} {}", at.time_since_epoch().count(), leader);
}

std::optional<Clock::time_point> etcd_clock_in(std::string_view value) {
  const auto count = number_in<std::int64_t>(value.substr(0, value.find(' ')));
  if (!count || *count < 0) return std::nullopt;
  return Clock::time_point(Clock::duration(*count));
}

}  // namespace ddprun::rdzv
