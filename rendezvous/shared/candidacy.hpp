// Which agents of a run host a candidate for its rendezvous service: those that have one of the
// slots in etcd, each under a lease of its own. When an agent ends, its slot becomes free, and
// another agent takes it. A pure state machine: what to ask etcd next, and what follows from the
// answer. No sockets, no clock.
//
// The slots only bound how many host one; which candidate leads is decided by the leader key
// (rendezvous/etcd/leadership.hpp). So one that has lost its slot stays a candidate.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/service/job.hpp"

namespace ddprun::rdzv {

struct CandidacySettings {
  std::string prefix;  ///< of the run's keys
  std::chrono::seconds ttl{10};
  std::chrono::milliseconds period{3'000};       ///< of keep-alives
  std::chrono::milliseconds look_every{10'000};  ///< while all slots are taken
  std::chrono::milliseconds retry{500};          ///< after a fault
};

// What to ask of etcd
// -------------------------------------------------------------------------

struct LookAtSlots {};
struct GrantSlotLease {};
struct ClaimSlot {
  int slot = 0;
  EtcdLease lease = 0;
};
struct RenewSlot {
  EtcdLease lease = 0;
};
using SlotRequest = std::variant<LookAtSlots, GrantSlotLease, ClaimSlot, RenewSlot>;

class Candidacy {
 public:
  /// Slots of a run: one leads, and two of its machines may be lost before none does.
  static constexpr int kSlots = 3;

  Candidacy(CandidacySettings settings, Clock::time_point now)
      : settings_(std::move(settings)), next_at_(now) {}

  /// The next thing to ask; none: nothing before next_at().
  [[nodiscard]] std::optional<SlotRequest> next(Clock::time_point now) const;
  [[nodiscard]] Clock::time_point next_at() const { return next_at_; }

  [[nodiscard]] EtcdQuery look() const;
  /// `place`: HOST:PORT of the candidate.
  [[nodiscard]] EtcdTxn claim(const ClaimSlot& request, const std::string& place) const;

  // The answers. `sent`: before it was asked.
  void looked(const EtcdPage& page, Clock::time_point now);
  void granted(const EtcdGrant& grant, Clock::time_point sent);
  void claimed(const EtcdTxnAnswer& answer, Clock::time_point now);
  void renewed(std::chrono::seconds ttl, Clock::time_point sent);
  void failed(Clock::time_point now);
  /// It has a slot, and cannot host: it is no candidate, and asks for a slot later.
  void gave_up(Clock::time_point now);

  /// It has had a slot: from then on, until gave_up().
  [[nodiscard]] bool is_candidate() const { return is_candidate_; }
  /// With which the slot goes, or for the next claim; 0: there is none.
  [[nodiscard]] EtcdLease lease() const { return lease_; }

 private:
  enum class Step { look, grant, claim, renew };

  [[nodiscard]] std::string folder() const { return settings_.prefix + "/candidates/"; }
  [[nodiscard]] std::string key(int slot) const { return folder() + std::to_string(slot); }
  void look_again(Clock::time_point at);

  const CandidacySettings settings_;
  Step step_ = Step::look;
  Clock::time_point next_at_;
  EtcdLease lease_ = 0;
  Clock::time_point lease_until_{};  // of one without a slot
  int slot_ = 0;
  bool is_candidate_ = false;
};

}  // namespace ddprun::rdzv
