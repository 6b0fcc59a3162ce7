#include "rendezvous/etcd/etcd_leader.hpp"

#include <algorithm>
#include <concepts>
#include <utility>

#include "base/boot_clock.hpp"
#include "base/start_thread.hpp"

namespace ddprun::rdzv {

namespace {

using namespace std::chrono_literals;

/// Long enough to ask three members, short enough to ask again within a lease.
constexpr Etcd::Limit kCallLimit{2'000};
constexpr Etcd::Limit kLastCallLimit{1'000};
/// One fault passes while etcd chooses a leader of its own.
constexpr int kFaultsUntold = 2;
/// The boot clock goes on while the machine sleeps, and a wait does not.
constexpr auto kWaitMost = 500ms;

}  // namespace

Result<std::shared_ptr<EtcdLeader>> EtcdLeader::start(const MakeClient& make_client,
                                                      LeadershipSettings settings, Events events) {
  std::shared_ptr<EtcdLeader> leader(
      new EtcdLeader(make_client, std::move(settings), std::move(events)));
  auto thread = start_thread("etcd", [raw = leader.get()] { raw->run(); });
  if (!thread) return thread.error();
  leader->thread_ = std::move(*thread);
  return leader;
}

EtcdLeader::EtcdLeader(const MakeClient& make_client, LeadershipSettings settings, Events events)
    : settings_(std::move(settings)),
      events_(std::move(events)),
      etcd_(make_client([this] { return is_stopped_.load(); })),
      leadership_(settings_, boot_clock_now()) {}

EtcdLeader::~EtcdLeader() { end(); }

void EtcdLeader::end(Leadership::Legacy legacy) {
  begin_end();
  is_stopped_ = true;
  {
    const std::lock_guard lock(mutex_);
    woken_.notify_all();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  is_stopped_ = false;  // for the last call
  answers_until_ = 0;
  if (const auto txn = leadership_.resign(boot_clock_now(), legacy)) {
    // Where it is lost, the lease ends by itself.
    [[maybe_unused]] const auto answer = etcd_->txn(*txn, kLastCallLimit);
  }
}

// ---- from any thread ----

EtcdLeader::View EtcdLeader::view() const {
  const std::lock_guard lock(mutex_);
  return {leadership_.role(), leadership_.revision(), leadership_.leader(), leadership_.reason()};
}

void EtcdLeader::lead(Clock::duration clock_shift, EtcdRevision clock_revision) {
  const std::lock_guard lock(mutex_);
  leadership_.lead(clock_shift, clock_revision);
  publish();
}

void EtcdLeader::stand_again() {
  const std::lock_guard lock(mutex_);
  leadership_.stand_again(boot_clock_now());
  publish();
}

void EtcdLeader::lose(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  leadership_.lose(reason);
  publish();
}

bool EtcdLeader::may_answer() const {
  return boot_clock_now().time_since_epoch().count() < answers_until_.load();
}

bool EtcdLeader::is_over() const { return is_ending_.load() || !has_key_.load(); }

/// With the mutex held.
void EtcdLeader::publish() {
  using Role = Leadership::Role;
  const auto until = leadership_.answers_until();
  answers_until_ = until ? until->time_since_epoch().count() : 0;
  const Role role = leadership_.role();
  has_key_ = role == Role::elected || role == Role::leading;
  woken_.notify_all();
  if (role == told_.role && leadership_.leader() == told_.leader) return;
  told_.role = role;
  told_.leader = leadership_.leader();
  events_.changed();
}

// ---- the thread ----

void EtcdLeader::run() {
  while (!is_stopped_) {
    std::optional<LeaderRequest> request;
    {
      std::unique_lock lock(mutex_);
      const auto now = boot_clock_now();
      request = leadership_.next(now);
      publish();
      if (!request) {
        const auto wait = std::clamp<Clock::duration>(leadership_.next_at() - now, 1ms, kWaitMost);
        woken_.wait_for(lock, wait);
        continue;
      }
    }
    ask(*request);
  }
}

template <class Answer, class Take>
void EtcdLeader::take(const EtcdResult<Answer>& answer, Take take) {
  const EtcdFault fault = answer ? EtcdFault{} : answer.error();
  tell(answer ? nullptr : &fault, std::same_as<Answer, EtcdPage>);
  const std::lock_guard lock(mutex_);
  if (answer) {
    take(*answer);
  } else {
    leadership_.failed(fault, boot_clock_now());
  }
  publish();
}

void EtcdLeader::ask(const LeaderRequest& request) {
  const auto sent = boot_clock_now();
  if (std::holds_alternative<LookForLeader>(request)) {
    take(etcd_->range(Leadership::look_of(settings_), kCallLimit),
         [&](const EtcdPage& page) { leadership_.looked(page, boot_clock_now()); });
  } else if (std::holds_alternative<GrantLease>(request)) {
    take(etcd_->grant(settings_.ttl, kCallLimit),
         [&](const EtcdGrant& grant) { leadership_.granted(grant, sent); });
  } else if (const auto* claim = std::get_if<ClaimLeader>(&request)) {
    take(etcd_->txn(Leadership::claim_of(settings_, claim->lease), kCallLimit),
         [&](const EtcdTxnAnswer& answer) { leadership_.claimed(answer, boot_clock_now()); });
  } else if (const auto* renew = std::get_if<RenewLease>(&request)) {
    take(etcd_->keep_alive(renew->lease, kCallLimit),
         [&](std::chrono::seconds ttl) { leadership_.renewed(ttl, sent); });
  } else if (const auto* confirm = std::get_if<ConfirmLeader>(&request)) {
    take(etcd_->txn(confirm->txn, kCallLimit),
         [&](const EtcdTxnAnswer& answer) { leadership_.confirmed(answer, boot_clock_now()); });
  } else if (const auto* compact = std::get_if<CompactHistory>(&request)) {
    const auto answer = etcd_->compact(compact->before, kCallLimit);
    if (!answer) tell_of_history(answer.error());
    const std::lock_guard lock(mutex_);
    leadership_.compacted();
    publish();
  } else {
    // A lease that is over cannot be dropped, and that is no fault to tell of.
    const auto answer = etcd_->revoke(std::get<DropLease>(request).lease, kCallLimit);
    const std::lock_guard lock(mutex_);
    answer ? leadership_.dropped() : leadership_.failed(answer.error(), boot_clock_now());
    publish();
  }
}

/// Nothing depends on it, but that etcd grows. Other leaders on the same etcd do it, too, and one
/// that does not answer is asked again, and told of, by what follows.
void EtcdLeader::tell_of_history(const EtcdFault& fault) {
  if (is_stopped_ || fault.kind != EtcdFault::Kind::refused) return;
  if (std::exchange(is_history_told_, true)) return;
  events_.warn(
      "etcd refuses to compact its history (some versions let only root do that), so it grows; if "
      "no other program compacts it, start etcd with --auto-compaction-mode=periodic "
      "--auto-compaction-retention=10m");
}

/// Reading works where writing does not, and proves nothing about it.
void EtcdLeader::tell(const EtcdFault* fault, bool is_read) {
  if (is_stopped_) return;
  const bool is_away = fault != nullptr && fault->kind == EtcdFault::Kind::unreachable;
  if (fault == nullptr) {
    faults_ = 0;
    const bool is_proof = !is_read || told_kind_ == EtcdFault::Kind::unreachable;
    if (is_proof && std::exchange(is_told_, false)) events_.warn("etcd answers again");
    return;
  }
  if (is_away && ++faults_ < kFaultsUntold) return;
  if (std::exchange(is_told_, true) && told_kind_ == fault->kind) return;
  told_kind_ = fault->kind;
  events_.warn(fault->reason);
}

}  // namespace ddprun::rdzv
