// What the service keeps of one job: its agents' sessions and its membership core. A pure function
// of the events that were applied, so that a journal of them brings it back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

/// A new session of an agent.
struct SessionBegan {
  proto::AgentId agent;
  std::string addr;  ///< the host's own; empty: not known, as behind a forwarder
  std::chrono::nanoseconds lease{0};
  std::chrono::nanoseconds age{0};  ///< since the agent was started
};
/// The next message of a session.
struct Said {
  proto::AgentId agent;
  proto::AgentMessage message;
};
/// Nothing more comes of a session, and nothing of its round is left: its lease is over, or its
/// agent and the agent's warden have ended.
struct SessionLost {
  proto::AgentId agent;
  proto::LossSign sign = proto::LossSign::ended;
  std::chrono::nanoseconds silent_for{0};  ///< since the agent's last word
  bool silent_for_longer = false;          ///< that was before the service was started
  proto::ClockId clock = 0;                ///< of the service
};
/// The agent knows how the job ended.
struct SessionOver {
  proto::AgentId agent;
};
/// An agent reports a round unknown to this job: until then its workers, and those of others, may
/// run.
struct PastHeard {
  Clock::time_point workers_may_run_until;
};

/// What is known of the job is older than what its agents were told: an old journal was put back,
/// or its end was damaged. Nothing of it is true any more, and until then workers may run.
struct MemoryLost {
  Clock::time_point workers_may_run_until;
};

/// The job is new here, and so may be the service: no round of fewer than all nodes forms before.
/// Nodes of a past of which no record is left may have workers until then.
struct JobBegan {
  Clock::time_point incomplete_not_before;
};

/// All that has to be known of a job that is over, once all its agents know it: its past before
/// this event can be forgotten.
struct JobOver {
  proto::Epoch next_epoch = 1;
  proto::Finished finished;
  Clock::time_point ended_at;
  Clock::time_point incomplete_not_before;
};

/// A snapshot begins: with what follows it is all that has to be known of a job with a round that
/// runs undisturbed, but for the end of an earlier life of it (JobOver).
struct JobRestored {
  Clock::time_point began_at;
  bool lost_any = false;
  MembershipSnapshot membership;
};
/// A session, and its node.
struct SessionRestored {
  proto::AgentId agent;
  std::uint64_t acknowledged = 0;
  std::string addr;
  std::chrono::nanoseconds lease{0};
  std::string node_name;
  std::string boot_id;
  std::optional<proto::Finished> outcome;
  std::optional<NodeSnapshot> node;
};
/// What a process has lost, in all its sessions.
struct LossesRestored {
  std::string process;
  proto::Losses losses;
};

using JobEvent =
    std::variant<JobBegan, SessionBegan, Said, SessionLost, SessionOver, PastHeard, DeadlinePassed,
                 JobOver, MemoryLost, JobRestored, SessionRestored, LossesRestored>;

using ConnectionId = std::uint64_t;

class Job {
 public:
  /// Where the agent is now: kept here by the service, not by events.
  struct Contact {
    std::optional<ConnectionId> connection;
    Clock::time_point heard_at;
    bool since_start = false;  ///< not a word: heard_at is when the service was started
  };
  struct Session {
    std::uint64_t acknowledged = 0;  ///< messages that were applied
    std::string addr;
    std::chrono::nanoseconds lease{0};
    std::string node_name;  ///< empty: it has not joined
    std::string boot_id;    ///< of its kernel
    /// How its part in the job ended. Null: it has not ended.
    std::shared_ptr<const proto::Finished> outcome;
    Contact contact;
  };
  using Sessions = std::map<proto::AgentId, Session>;

  /// How long the service waits for the agents of a job of which the records are lost.
  static constexpr std::chrono::hours kAwaited{1};

  explicit Job(Clock::time_point now) : began_at_(now) {}

  /// `sends` go to sessions of this job.
  MembershipActions apply(const JobEvent& event, Clock::time_point at);

  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  [[nodiscard]] const Sessions& sessions() const { return sessions_; }
  /// Null: there is no such session.
  [[nodiscard]] const Session* session(const proto::AgentId& agent) const;
  /// The agents that have joined as this node. Names are not unique.
  [[nodiscard]] std::vector<proto::AgentId> agents_of(const std::string& node_name) const;
  Contact& contact(const proto::AgentId& agent) { return sessions_.at(agent).contact; }
  /// What an agent has to know that may have missed the last message to it; none: it waits.
  [[nodiscard]] std::optional<proto::MembershipMessage> current(const proto::AgentId& agent) const;
  [[nodiscard]] proto::Epoch epoch() const { return membership_ ? membership_->epoch() : epoch_; }
  [[nodiscard]] Clock::time_point began_at() const { return began_at_; }
  [[nodiscard]] std::chrono::nanoseconds age(Clock::time_point now) const {
    return std::max<std::chrono::nanoseconds>(now - began_at_, std::chrono::nanoseconds(0));
  }
  /// Null: no agent has joined.
  [[nodiscard]] const Membership* membership() const {
    return membership_ ? &*membership_ : nullptr;
  }
  /// Whether there is nothing that an agent may yet ask for.
  [[nodiscard]] bool is_empty() const {
    return sessions_.empty() && !membership_ && !outcome_ && !awaited_until_;
  }
  [[nodiscard]] bool is_over() const {
    return outcome_ && (!membership_ || membership_->outcome() != nullptr);
  }
  /// Whether a round has formed, and the job is not over.
  [[nodiscard]] bool may_have_workers() const {
    return membership_ && membership_->has_formed() && membership_->outcome() == nullptr;
  }
  /// Whether nodes of a past that is unknown here may have workers: the first round waits for that.
  [[nodiscard]] bool may_have_past() const {
    const bool waits = past_heard_ || incomplete_not_before_ != Clock::time_point{};
    return waits && !outcome_ && !(membership_ && membership_->has_formed());
  }
  [[nodiscard]] bool has_heard_of_past() const { return past_heard_; }
  /// Whether no agent is waited for.
  [[nodiscard]] bool is_idle() const { return is_empty() || (is_over() && sessions_.empty()); }
  /// Whether it is over for an agent that was started then: such a one means to run it again.
  [[nodiscard]] bool was_over_before(Clock::time_point started) const {
    return is_over() && started > outcome_->at;
  }
  /// Whether it is over and every agent that survived knows the outcome.
  [[nodiscard]] bool all_know() const { return is_over() && sessions_.empty() && !lost_any_; }
  /// Requires that it was over once.
  [[nodiscard]] JobOver summary() const;
  /// Whether a snapshot is short and tells all.
  [[nodiscard]] bool is_at_rest() const { return membership_ && membership_->is_at_rest(); }
  /// Events that make an empty job one that does the same from now on. Requires is_at_rest().
  [[nodiscard]] std::vector<JobEvent> snapshot() const;

 private:
  struct Outcome {
    proto::Finished finished;
    Clock::time_point at;
  };

  void apply_one(const JobBegan& began, Clock::time_point at, MembershipActions& actions);
  void apply_one(const SessionBegan& began, Clock::time_point at, MembershipActions& actions);
  void apply_one(const Said& said, Clock::time_point at, MembershipActions& actions);
  void apply_one(const SessionLost& lost, Clock::time_point at, MembershipActions& actions);
  void apply_one(const SessionOver& over, Clock::time_point at, MembershipActions& actions);
  void apply_one(const PastHeard& past, Clock::time_point at, MembershipActions& actions);
  void apply_one(const MemoryLost& lost, Clock::time_point at, MembershipActions& actions);
  void apply_one(const DeadlinePassed& passed, Clock::time_point at, MembershipActions& actions);
  void apply_one(const JobOver& over, Clock::time_point at, MembershipActions& actions);
  void apply_one(const JobRestored& job, Clock::time_point at, MembershipActions& actions);
  void apply_one(const SessionRestored& one, Clock::time_point at, MembershipActions& actions);
  void apply_one(const LossesRestored& one, Clock::time_point at, MembershipActions& actions);
  [[nodiscard]] bool ended_in_life_of(std::chrono::nanoseconds age, Clock::time_point at) const;
  void join(const Said& said, Session& session, Clock::time_point at, MembershipActions& actions);
  void begin_epoch(const proto::Join& join, Clock::time_point at);
  bool erase_session(const proto::AgentId& agent);
  void erase_sessions();
  void tell(const MembershipEvent& event, Clock::time_point at, MembershipActions& actions);

  Clock::time_point began_at_;
  Clock::time_point incomplete_not_before_{};
  bool past_heard_ = false;
  proto::Epoch epoch_ = 1;  // of the next membership core
  std::optional<Clock::time_point> hold_until_;
  std::optional<proto::PastRound> past_;  // before the memory was lost
  std::optional<Membership> membership_;
  Sessions sessions_;
  std::set<std::pair<std::string, proto::AgentId>> by_node_;  // those of sessions_ that have joined
  std::optional<Outcome> outcome_;                            // the last one, of any epoch
  bool lost_any_ = false;  // an agent of this epoch, which may be cut off and come back
  // Agents of a memory that is lost may come; none: there is no such memory, or they have.
  std::optional<Clock::time_point> awaited_until_;
};

}  // namespace ddprun::rdzv
