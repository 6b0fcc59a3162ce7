// What a job knows in all its states: its settings and nodes, the rounds and restarts so far, and
// what was lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership_events.hpp"
#include "rendezvous/membership/node_checks.hpp"
#include "rendezvous/membership/restart_policy.hpp"
#include "rendezvous/membership/roster.hpp"

namespace ddprun::rdzv {

/// What a core knows while a round is out and nothing has happened to it since it formed: little,
/// and as much after a thousand rounds as after the first. Without the nodes and their losses, of
/// which there may be many: they are given one by one.
struct MembershipSnapshot {
  proto::JobSettings settings;
  proto::Round round;  ///< that is out: what all its nodes have alike
  RestartHistory restarts;
  int node_changes = 0;
  std::uint64_t joins = 0;
  std::optional<proto::PastRound> past;  ///< of a service that has lost its memory
  std::chrono::steady_clock::time_point incomplete_not_before{};
  std::string last_refusal;
  bool has_leftovers = false;
  std::uint64_t checks = 0;
  std::vector<proto::UnsoundNode> unsound;
};

/// A line for each option that has another value on a node than in its job. The job's value counts
/// everywhere: "this job has --max-restarts=3, not --max-restarts=0".
std::vector<std::string> differences(const proto::JobSettings& job,
                                     const proto::JobSettings& given);

struct JobFacts {
  JobFacts(proto::JobSettings of_job, proto::Epoch first_epoch, Clock::time_point began_at);
  JobFacts(const MembershipSnapshot& snapshot, Clock::time_point began_at);
  [[nodiscard]] MembershipSnapshot snapshot() const;

  /// The agent joins. False: it was refused.
  bool admit(const proto::AgentId& agent, const proto::Join& join, MembershipActions& actions);
  /// A spare waits for another round than the one that runs.
  void notify_spare(const proto::AgentId& agent, int nodes, std::string why,
                    MembershipActions& actions) const;

  /// None: nothing has happened.
  [[nodiscard]] std::optional<proto::PastRound> known_past() const;
  void add_past(const proto::PastRound& more);
  /// The next round counts on from the past.
  void resume_from_past();

  /// The agent's entry, if it takes part in the newest round and that is this one.
  [[nodiscard]] Roster::Entry* participant(const proto::AgentId& agent, proto::RoundNumber number);
  [[nodiscard]] proto::Round round_for(const Seat& seat) const;
  /// What leaving means for the job. At a spare, a person's Ctrl-C does not end the work of the
  /// others, which may be another person's.
  [[nodiscard]] proto::Leave leave_of(const Member& member, proto::Leave leave) const;
  /// The outcome of a job that a node ends: it says on which node.
  [[nodiscard]] proto::Finished cancelled_by(const Roster::Entry& entry,
                                             const proto::Leave& leave) const;
  /// An agent's last report covers all its rounds. Each leftover gets its node's name.
  void note_losses(const Roster::Entry& entry, const proto::Losses& more);
  /// The sum over all other agents.
  [[nodiscard]] proto::Losses losses_beside(const proto::AgentId& agent) const;

  const proto::JobSettings settings;
  proto::Epoch epoch;
  const Clock::time_point began;  ///< times of several nodes count from here
  Roster roster;
  NodeChecks checks;
  RestartPolicy policy;
  int node_changes = 0;
  std::uint64_t joins = 0;
  proto::Round round;  ///< the last one that has formed: what all its nodes have alike
  proto::RoundNumber next_round = 0;
  bool formed_any = false;
  std::optional<proto::PastRound> past;  ///< of a service that has lost its memory
  Clock::time_point incomplete_not_before{};
  std::string reason = "first round";  ///< why the next round forms, or the newest one stops
  std::string last_refusal;
  std::map<std::string, proto::Losses> losses;  ///< of agents that had any, in all their sessions
  bool has_leftovers = false;                   ///< one of them
};

}  // namespace ddprun::rdzv
