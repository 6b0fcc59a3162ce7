// Which of several processes serves the jobs: the one that has the leader key, under a lease of
// etcd that it keeps alive. A pure state machine: what to ask etcd next, and what follows from the
// answer. No sockets, no clock.
//
// A lease is counted from before it was asked for, by the machine's own clock, so that it is over
// here before etcd may give the key to another. The leader answers agents until then and no longer.
// It also proves with each renewal, by a write, that the key is still its own: that write is the
// service's clock, so that the next leader goes on with it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/etcd/etcd_keys.hpp"
#include "rendezvous/etcd/etcd_slot.hpp"
#include "rendezvous/service/job.hpp"

namespace ddprun::rdzv {

struct LeadershipSettings {
  std::string prefix;
  std::string place;  ///< HOST:PORT where agents reach this one
  std::chrono::seconds ttl{5};
  std::chrono::milliseconds margin{500};    ///< clocks may differ by so much within `ttl`
  std::chrono::milliseconds period{1'250};  ///< of keep-alives
  std::chrono::milliseconds poll{500};      ///< of a standby: which one leads?
  std::chrono::milliseconds retry{100};     ///< after a fault
  /// The leader removes etcd's history that is older than that, as etcd itself does only if it is
  /// told to: each write of the clock adds to it.
  std::chrono::minutes history{10};
};

// What to ask of etcd
// -------------------------------------------------------------------------

struct LookForLeader {};
struct GrantLease {};
struct ClaimLeader {
  EtcdLease lease = 0;
};
struct RenewLease {
  EtcdLease lease = 0;
};
/// A write through the clock's slot.
struct ConfirmLeader {
  EtcdTxn txn;
};
struct DropLease {
  EtcdLease lease = 0;
};
struct CompactHistory {
  EtcdRevision before = 0;
};
using LeaderRequest = std::variant<LookForLeader, GrantLease, ClaimLeader, RenewLease,
                                   ConfirmLeader, DropLease, CompactHistory>;

class Leadership {
 public:
  enum class Role {
    standby,
    elected,  ///< has the key; reads the past, and answers nobody
    leading,  ///< until answers_until()
    lost,     ///< had the key; until stand_again()
  };

  Leadership(LeadershipSettings settings, Clock::time_point now);

  /// The next thing to ask; none: nothing before next_at().
  [[nodiscard]] std::optional<LeaderRequest> next(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_at() const;

  // The answers. `sent`: before it was asked.
  void looked(const EtcdPage& page, Clock::time_point now);
  void granted(const EtcdGrant& grant, Clock::time_point sent);
  void claimed(const EtcdTxnAnswer& answer, Clock::time_point now);
  void renewed(std::chrono::seconds ttl, Clock::time_point sent);
  void confirmed(const EtcdTxnAnswer& answer, Clock::time_point now);
  void dropped();
  void compacted();
  void failed(const EtcdFault& fault, Clock::time_point now);

  /// Elected: the past is read. `clock_shift`: as JournalPast's; `clock_revision`: of the clock's
  /// key, 0: there was none.
  void lead(Clock::duration clock_shift, EtcdRevision clock_revision);
  /// The service cannot go on under this leadership.
  void lose(std::string reason);
  /// Lost: the service is stopped.
  void stand_again(Clock::time_point now);
  /// What becomes of the keys when a leader ends in order.
  enum class Legacy {
    kept,     ///< another one may lead at once, with the clock as it is now
    removed,  ///< all keys of the prefix go, where this one leads: nobody needs them
  };
  /// The last write of a leader that ends in order; none: it has no key.
  [[nodiscard]] std::optional<EtcdTxn> resign(Clock::time_point now, Legacy legacy = Legacy::kept);

  [[nodiscard]] Role role() const { return role_; }
  /// None: not leading.
  [[nodiscard]] std::optional<Clock::time_point> answers_until() const { return answers_until_; }
  /// The leader key's create_revision, while it is elected or leads.
  [[nodiscard]] EtcdRevision revision() const { return revision_; }
  /// The one that leads, as far as this one has heard; empty: none.
  [[nodiscard]] const std::string& leader() const { return leader_; }
  /// Why it was lost.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  [[nodiscard]] static EtcdTxn claim_of(const LeadershipSettings& settings, EtcdLease lease);
  [[nodiscard]] static EtcdQuery look_of(const LeadershipSettings& settings);

 private:
  enum class Step { look, grant, claim, renew, confirm, compact, drop, rest };

  [[nodiscard]] bool has_key() const { return role_ == Role::elected || role_ == Role::leading; }
  void follow(Clock::time_point next_at);
  void fall(std::string reason);
  void renew_later();

  const LeadershipSettings settings_;
  const EtcdKeys keys_;
  Role role_ = Role::standby;
  Step step_ = Step::look;
  Clock::time_point next_at_;
  EtcdLease lease_ = 0;
  Clock::time_point lease_until_{};  // by our own clock, the margin taken off
  std::optional<Clock::time_point> answers_until_;
  EtcdRevision revision_ = 0;
  std::optional<EtcdSlot> clock_slot_;
  Clock::duration clock_shift_{0};
  std::string clock_value_;               // that is being written
  Clock::time_point confirming_until_{};  // what follows from that
  EtcdRevision new_revision_ = 0;         // the store's, `history` before compact_at_
  EtcdRevision old_revision_ = 0;         // that is being compacted
  Clock::time_point compact_at_{};
  std::string leader_;
  std::string reason_;
  std::string trouble_;  // the last fault since the last renewal
};

/// The value of PREFIX/clock: the time since the clock's zero, and which leader wrote it.
std::string etcd_clock_value(Clock::time_point at, EtcdRevision leader);
std::optional<Clock::time_point> etcd_clock_in(std::string_view value);

}  // namespace ddprun::rdzv
