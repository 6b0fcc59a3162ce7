// The nodes of the job, rounds, ranks, the restart budget and the outcome, as a pure state machine:
// (state, event, now) -> actions and the reason. One node is the one-member case. No sockets, no
// clock, no threads.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/membership/job_facts.hpp"
#include "rendezvous/membership/membership_events.hpp"
#include "rendezvous/membership/states.hpp"

namespace ddprun::rdzv {

/// The membership core of one job.
class Membership {
 public:
  /// Job time, in which several nodes give their times, began at `job_began`.
  Membership(proto::JobSettings settings, Clock::time_point now, proto::Epoch epoch = 0,
             Clock::time_point job_began = {});
  /// Continues from a snapshot, once `restore` has given it the nodes and losses.
  Membership(const MembershipSnapshot& snapshot, Clock::time_point job_began);
  /// Parts of the same snapshot. A node that is there already stays as it is.
  void restore(const proto::AgentId& agent, const NodeSnapshot& node);
  void restore(const std::string& process, const proto::Losses& losses);

  MembershipActions on(const MembershipEvent& event, Clock::time_point now);
  /// The first round forms no sooner, because unknown workers of an earlier service may still run.
  void hold_until(Clock::time_point when);
  /// A round of fewer than max_nodes forms no sooner, because missing nodes may have such workers.
  void hold_incomplete_until(Clock::time_point when);

  /// When DeadlinePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  [[nodiscard]] JobState state() const { return static_cast<JobState>(state_.index()); }
  [[nodiscard]] proto::Epoch epoch() const { return job_.epoch; }
  /// How many nodes have joined and not gone.
  [[nodiscard]] int nodes() const { return job_.roster.size(); }
  [[nodiscard]] const proto::JobSettings& settings() const { return job_.settings; }
  /// The agent's group rank in the newest round; none: it has no part in it.
  [[nodiscard]] std::optional<int> group_rank(const proto::AgentId& agent) const;
  [[nodiscard]] bool has_formed() const { return job_.formed_any; }
  /// What a service that goes on with this job has to know; none: nothing has happened.
  [[nodiscard]] std::optional<proto::PastRound> past() const { return job_.known_past(); }
  /// The job ran before, under a service that has lost its memory: rounds, epochs and restarts are
  /// counted on from there. May be called again; the newest counts.
  void go_on_from(const proto::PastRound& past);
  [[nodiscard]] proto::RoundNumber next_round() const { return job_.next_round; }
  [[nodiscard]] int restart_count() const { return job_.policy.restart_count(); }
  /// Null until the state is finished.
  [[nodiscard]] const proto::Finished* outcome() const;
  /// The newest message to an agent, which may have missed it; none: the agent waits.
  [[nodiscard]] std::optional<proto::MembershipMessage> current(const proto::AgentId& agent) const;

  /// Whether a snapshot has all: a round is out, and nothing has happened to it.
  [[nodiscard]] bool is_at_rest() const;
  /// Requires is_at_rest().
  [[nodiscard]] MembershipSnapshot snapshot() const { return job_.snapshot(); }
  /// The snapshot's part of one node; none: the job does not have it.
  [[nodiscard]] std::optional<NodeSnapshot> node(const proto::AgentId& agent) const;
  /// What was lost, by the agent's process, over all its sessions.
  [[nodiscard]] const std::map<std::string, proto::Losses>& losses() const { return job_.losses; }

  /// What the core does on an event in a state: "ignored" where the event has no meaning there.
  static std::string_view response(JobState state, EventKind kind);

 private:
  JobFacts job_;
  State state_;
};

}  // namespace ddprun::rdzv
