// The states of a job, each with the data that has a meaning in it alone, and what it does on an
// event. Which event has a meaning in which state stands in the table of membership.cpp.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/membership_messages.hpp"
#include "rendezvous/membership/job_facts.hpp"
#include "rendezvous/membership/judge.hpp"
#include "rendezvous/membership/membership_events.hpp"

namespace ddprun::rdzv {

struct Context;

/// Agents join; no workers.
struct Forming {
  Clock::time_point since;
  bool reforming = false;  ///< with the nodes of the last round, as soon as they are back
  std::optional<Clock::time_point> last_call_at = {};
  /// The back-off of a restart is over, and no workers of an earlier service can run.
  std::optional<Clock::time_point> not_before = {};
  std::optional<Clock::time_point> notify_at = {};  ///< the nodes that wait
  bool has_chosen = false;  ///< a round forms as soon as the chosen nodes have passed their checks
  std::optional<proto::FailedWorker> culprit = {};  ///< of the last round, if that failed
  std::string change = {};  ///< of nodes, for which the last round ended; empty: it did not
  std::optional<proto::LostNode> lost_node = {};  ///< the first one of the last round

  void enter(JobFacts& job, Context& context);
  void on_join(JobFacts& job, const proto::Join& join, Context& context);
  void on_leave(JobFacts& job, const proto::Leave& left, Context& context);
  void on_checked(JobFacts& job, const proto::Checked& checked, Context& context);
  void on_lost(JobFacts& job, const AgentLost& lost, Context& context);
  void on_deadline(JobFacts& job, const DeadlinePassed& passed, Context& context);

  void try_form(JobFacts& job, Context& context);
  void form(JobFacts& job, Context& context);
  /// Asks the nodes of the next round that need a check. True: it forms when they have answered.
  bool check_chosen(JobFacts& job, const std::vector<Roster::Entry*>& nodes, Context& context);
  /// The round that forms has no place for a node that gives way.
  void step_back(JobFacts& job, Roster::Entry& entry, Context& context) const;
  void notify_waiting(JobFacts& job, Context& context);
  /// A round that forms by itself at a known moment is not given up before it: enough nodes are
  /// there, and the last call or the leases of an earlier life are waited for. A check has a
  /// deadline of its own.
  [[nodiscard]] bool will_form(const JobFacts& job) const;
  /// With the nodes that wait; or when the job ends because they are too few.
  [[nodiscard]] Clock::time_point forms_at(const JobFacts& job) const;
  [[nodiscard]] std::optional<Clock::time_point> deadline(const JobFacts& job) const;
};

/// A round is out.
struct Running {
  std::optional<Clock::time_point> grow_at = {};

  void enter(JobFacts&, Context&) {}
  void on_join(JobFacts& job, const proto::Join& join, Context& context);
  void on_worker_failed(JobFacts& job, const proto::WorkerFailed& failed, Context& context);
  void on_workers_done(JobFacts& job, const proto::WorkersDone& done, Context& context);
  void on_leave(JobFacts& job, const proto::Leave& left, Context& context);
  void on_checked(JobFacts& job, const proto::Checked& checked, Context& context);
  void on_ask_restart(JobFacts& job, const proto::AskRestart& asked, Context& context);
  void on_lost(JobFacts& job, const AgentLost& lost, Context& context);
  void on_deadline(JobFacts& job, const DeadlinePassed& passed, Context& context);

  void grow_or_spare(JobFacts& job, Context& context);
  void grow_when_due(JobFacts& job, Context& context);
};

/// The round's agents stop their workers.
struct Stopping {
  bool may_save = false;      ///< nothing has failed
  bool replaces_all = false;  ///< no worker goes on in the next round
  bool final = false;         ///< no restart can follow
  Judge judge = {};
  Clock::time_point failed_at = {};             ///< the first failure
  std::optional<proto::Leave> last_leave = {};  ///< of a node that went alone
  std::optional<proto::Finished> ending = {};   ///< the job was cancelled

  void enter(JobFacts& job, Context& context);
  void on_join(JobFacts& job, const proto::Join& join, Context& context);
  void on_stopped(JobFacts& job, const proto::Stopped& stopped, Context& context);
  void on_leave(JobFacts& job, const proto::Leave& left, Context& context);
  void on_checked(JobFacts& job, const proto::Checked& checked, Context& context);
  void on_lost(JobFacts& job, const AgentLost& lost, Context& context);

  void note_failed(const JobFacts& job, const Roster::Entry& entry,
                   const proto::WorkerFailed& failed, Clock::time_point now);
  void note_lost(const JobFacts& job, const Roster::Entry& entry, const AgentLost& lost,
                 Clock::time_point now);
  void release(JobFacts& job, const Roster::Entry& entry, const proto::Leave& leave,
               Context& context);
  void check_stopped(JobFacts& job, Context& context);
  void judge_round(JobFacts& job, Context& context);
  void change_nodes(JobFacts& job, Context& context);
  [[nodiscard]] proto::Stop stop_for(const Member& member, const JobFacts& job) const;
};

/// The job has an outcome.
struct Finished {
  proto::Finished outcome;
  proto::AgentId reporter = {};  ///< of a failure; empty: each node reports it
  std::string reporter_name = {};

  void enter(JobFacts& job, Context& context);
  void on_join(JobFacts& job, const proto::Join& join, Context& context);

  /// In full for the node that reports it, and for the culprit's.
  [[nodiscard]] proto::Finished outcome_for(const proto::AgentId& agent, const JobFacts& job) const;
  void choose_reporter(const JobFacts& job);
};

/// In the order of JobState.
using State = std::variant<Forming, Running, Stopping, Finished>;

/// What comes of one event, and of which agent it is.
struct Context {
  const proto::AgentId& agent;
  Clock::time_point now;
  MembershipActions actions = {};
  std::optional<State> next = {};  ///< set last: the state is left when its handler returns
  /// The agent goes, and is no member any more: it gets the job's outcome, if it was the last one,
  /// or else its own.
  std::optional<proto::Leave> goodbye = {};
};

}  // namespace ddprun::rdzv
