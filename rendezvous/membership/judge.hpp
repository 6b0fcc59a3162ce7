// What the nodes of a round report about its end, and what follows from it: which worker failed the
// round, or which node was lost. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/membership_messages.hpp"
#include "rendezvous/membership/roster.hpp"

namespace ddprun::rdzv {

/// The times of several nodes, by one clock: that of the service which got the newest one. The
/// services before it may have had others.
class RoundTimes {
 public:
  /// One instant by two clocks shows how they differ: so all times by the older clock become times
  /// by the newer one.
  void note_began(const proto::AgentId& agent, const std::optional<proto::JobTime>& round_began);
  void note_lost(const proto::JobTime& last_seen);
  [[nodiscard]] bool has(const proto::AgentId& agent) const { return began_.contains(agent); }
  /// Whether a time by this service's clock is missing: a node that has reported its failures to
  /// the service before this one only, reports its time again as soon as it is back.
  [[nodiscard]] bool awaits_any_of(const Roster& roster) const;
  /// Whether the worker surely failed after the last message of the lost node.
  [[nodiscard]] bool is_after_loss(const proto::FailedWorker& worker) const;
  /// Times that count from the round's start on their own node count from here on from that on the
  /// first of these nodes. Where it is not known how a lost node's clock differs, they are
  /// uncertain by the length of the round.
  void put_in_job_time(std::map<int, proto::FailedWorker>& failed,
                       std::vector<proto::EarlyEnd>& ended) const;

 private:
  void move(const proto::JobTime& from, const proto::JobTime& to);
  [[nodiscard]] bool is_comparable(const proto::JobTime& time) const;
  [[nodiscard]] const proto::JobTime* began(const proto::AgentId& agent) const;

  std::map<proto::AgentId, proto::JobTime> began_;  // the round, on nodes with times of workers
  proto::ClockId clock_ = 0;                        // of the newest time
  std::optional<proto::JobTime> lost_at_;           // the earliest last message of a lost node
};

class Judge {
 public:
  /// A node of the round.
  struct Source {
    const proto::AgentId& agent;
    std::string name;  ///< empty: the job has one node
    int first_rank = 0;
  };

  /// What is known of a failure at once; the evidence comes with Stopped.
  void note_failed(const Source& source, const proto::WorkerFailed& failed);
  void note_stopped(const Source& source, const proto::Stopped& stopped);
  /// A node that has stopped reports the round's start again, to a service with another clock.
  void note_began_again(const proto::AgentId& agent,
                        const std::optional<proto::JobTime>& round_began);
  void note_lost(const proto::AgentId& agent, proto::LostNode node,
                 const proto::JobTime& last_seen);

  [[nodiscard]] bool has_failures() const { return !failed_.empty(); }
  [[nodiscard]] const std::map<int, proto::FailedWorker>& failed() const { return failed_; }
  /// The first one, with how many more.
  [[nodiscard]] const std::optional<proto::LostNode>& lost_node() const { return lost_node_; }
  /// Whether every worker that failed may have done so because a node was lost.
  [[nodiscard]] bool lost_node_explains() const;
  [[nodiscard]] bool awaits_times(const Roster& roster) const {
    return times_.awaits_any_of(roster);
  }
  /// The furthest of its workers' steps; none: they did not report any.
  [[nodiscard]] std::optional<std::uint64_t> furthest_step() const { return furthest_step_; }
  /// Requires failures. What was reported is moved into it.
  [[nodiscard]] proto::Verdict take_verdict();

 private:
  struct SlowNode {
    proto::AgentId agent;
    std::string name;
    int rank = 0;  // of the worker
    proto::SlowestWorker worker;
  };

  void add(const Source& source, const proto::WorkerFailure& failure);
  void keep_details(int rank);
  [[nodiscard]] bool may_miss_lost_node(const proto::FailedWorker& worker) const;
  void blame_furthest_behind();

  std::map<int, proto::FailedWorker> failed_;  // by rank; empty: the round stops otherwise
  std::set<int> detailed_;                     // which of failed_ have all their lines
  RoundTimes times_;
  std::vector<SlowNode> slowest_;
  std::vector<proto::Suspect> still_ran_;
  std::size_t stacks_kept_ = 0;  // of still_ran_
  std::vector<proto::EarlyEnd> ended_;
  std::map<proto::AgentId, proto::ProgramFacts> programs_;  // of nodes with failures
  std::optional<std::uint64_t> furthest_step_;
  std::set<proto::AgentId> lost_;  // nodes of the round
  std::optional<proto::LostNode> lost_node_;
};

}  // namespace ddprun::rdzv
