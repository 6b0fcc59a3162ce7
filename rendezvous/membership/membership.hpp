// The nodes of the job, rounds, ranks, the restart budget and the outcome, as a pure state machine:
// (state, event, now) -> actions and the reason. One node is the one-member case. No sockets, no
// clock, no threads.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership_events.hpp"
#include "rendezvous/membership/membership_snapshot.hpp"
#include "rendezvous/membership/restart_policy.hpp"

namespace ddprun::rdzv {

/// The membership core of one job.
class Membership {
 public:
  /// At most this many waiting nodes are told how many have joined.
  static constexpr int kWaitersToldMax = 64;
  /// Of what a check has printed, or of how a worker failed, so much is kept.
  static constexpr std::size_t kUnsoundTextBytesMax = 1024;
  /// So many rounds in a row that failed on one node, and it gives way to a spare.
  static constexpr int kFailedRoundsMax = 2;

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
  /// The same for a round of fewer than max_nodes: the nodes that are missing may have such
  /// workers.
  void hold_incomplete_until(Clock::time_point when);

  /// When DeadlinePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  [[nodiscard]] JobState state() const { return state_; }
  [[nodiscard]] proto::Epoch epoch() const { return epoch_; }
  /// How many nodes have joined and not gone.
  [[nodiscard]] int nodes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] const proto::JobSettings& settings() const { return settings_; }
  /// The agent's group rank in the newest round; none: it has no part in it.
  [[nodiscard]] std::optional<int> group_rank(const proto::AgentId& agent) const;
  [[nodiscard]] bool has_formed() const { return formed_any_; }
  /// What one that goes on with this job has to know; none: nothing has happened.
  [[nodiscard]] std::optional<proto::PastRound> past() const;
  /// The job ran before, under a service that has lost its memory: rounds, epochs and restarts are
  /// counted on from there. May be called again; the newest counts.
  void go_on_from(const proto::PastRound& past);
  [[nodiscard]] proto::RoundNumber next_round() const { return next_round_; }
  [[nodiscard]] int restart_count() const { return policy_.restart_count(); }
  /// Set once the state is finished.
  [[nodiscard]] const std::optional<proto::Finished>& outcome() const { return outcome_; }
  /// What an agent has to know that may have missed the last message to it; none: it waits.
  [[nodiscard]] std::optional<proto::MembershipMessage> current(const proto::AgentId& agent) const;

  /// Whether a snapshot tells all: a round is out, and nothing has happened to it.
  [[nodiscard]] bool is_at_rest() const;
  /// Requires is_at_rest().
  [[nodiscard]] MembershipSnapshot snapshot() const;
  /// The snapshot's part of one node; none: the job does not have it.
  [[nodiscard]] std::optional<NodeSnapshot> node(const proto::AgentId& agent) const;
  /// What was lost, by the agent's process, over all its sessions.
  [[nodiscard]] const std::map<std::string, proto::Losses>& losses() const { return losses_; }

  /// What the core does on an event in a state: the name of the handler, "ignored" where the event
  /// has no meaning there.
  static std::string_view response(JobState state, EventKind kind);

 private:
  enum class Phase {
    waiting,   ///< for the next round
    checking,  ///< it takes part in no round before it has passed its check
    active,    ///< in the round that is out; its workers run, as far as is known
    done,      ///< in the round that is out; its workers have succeeded
    gone,      ///< after that it was lost or left: nothing more is expected of it
    stopped,   ///< nothing of the last round is left on it; it will join again
  };
  static constexpr int kPhases = 6;
  struct Member {
    Phase phase = Phase::waiting;
    Node node;
    std::uint64_t order = 0;              // of joining
    std::optional<Seat> seat;             // in round_
    std::optional<proto::Leave> leaving;  // it takes part in no other
    bool is_checked = true;               // no check is needed before the next round
    std::uint64_t check = 0;              // checking: the number of the Check
    bool is_chosen = false;               // checking: the next round waits for it
    int failed_rounds = 0;                // in a row: each failed here
    proto::RoundNumber stepped_back = 0;  // since this round, for its failures; 0: it has not
  };
  using Members = std::map<proto::AgentId, Member>;
  struct SlowNode {
    proto::AgentId agent;
    std::string name;
    int rank = 0;  // of the worker
    proto::SlowestWorker worker;
  };
  struct Context {
    const proto::AgentId& agent;
    const proto::AgentMessage* message;  // null for lost and deadline
    const AgentLost* lost;               // null for others
    Clock::time_point now;
    MembershipActions& actions;
  };
  using Handler = void (Membership::*)(Context&);
  struct Response {
    Handler handler;
    std::string_view name;
  };
  using Table = std::array<std::array<Response, kJobStates>, kEventKinds>;
  static const Table kTable;

  // The handlers of the table: in any state, while a round is out,
  void ignore(Context& context);
  void greet_late(Context& context);
  void join_running(Context& context);
  void fail_running(Context& context);
  void done_running(Context& context);
  void leave_running(Context& context);
  void lost_running(Context& context);
  void deadline_running(Context& context);
  // while one forms,
  void join_forming(Context& context);
  void leave_forming(Context& context);
  void lost_forming(Context& context);
  void deadline_forming(Context& context);
  // while one stops.
  void join_stopping(Context& context);
  void stopped_stopping(Context& context);
  void leave_stopping(Context& context);
  void lost_stopping(Context& context);
  // Answers to checks.
  void checked_forming(Context& context);
  void checked_running(Context& context);
  void checked_stopping(Context& context);

  bool wait(Context& context);
  [[nodiscard]] std::string refusal(const Context& context, const proto::Join& join) const;
  [[nodiscard]] std::string why_rank_is_taken(const Context& context) const;
  void refuse(Context& context, const std::string& node, std::string why);
  void tell_of_twins(Context& context, const proto::Join& join) const;
  void tell_of_differences(Context& context, const proto::Join& join) const;
  void learn_past(const proto::Join& join);
  void go_on_from_past();
  void grow_when_due(Context& context);
  void grow_or_spare(Context& context);
  void try_form(Context& context);
  [[nodiscard]] bool will_form() const;
  void warn_of_store_room(const Member& server, int world_size, Context& context) const;
  void form(Context& context);
  bool check_chosen(const std::vector<Member*>& nodes, Context& context);
  [[nodiscard]] bool awaits_chosen() const;
  void ask_for_check(Members::value_type& member, Context& context);
  bool take_answer(Context& context);
  void refuse_unsound(Members::iterator member, const proto::Checked& checked, Context& context);
  void note_unsound(const std::string& node, const std::string& reason);
  void count_failed_round(const proto::AgentId& node);
  [[nodiscard]] bool gives_way(const Member& member) const;
  void step_back(Members::value_type& member, Context& context);
  void tell_spare(const proto::AgentId& agent, int nodes, std::string reason,
                  Context& context) const;
  [[nodiscard]] std::vector<Member*> seated();
  [[nodiscard]] proto::Round round_for(const Seat& seat) const;
  void tell_waiting(Context& context);
  void send_to_waiting(Context& context, const proto::MembershipMessage& message) const;
  [[nodiscard]] Clock::time_point forms_at() const;
  [[nodiscard]] std::vector<std::string> names_of(Phase phase) const;
  [[nodiscard]] std::vector<std::string> missing() const;
  void start_forming(Context& context, Clock::duration delay = {});
  void stop_round(Context& context, const std::string& reason, bool may_save);
  [[nodiscard]] proto::Stop stop_for(const Member& member) const;
  void check_stopped(Context& context);
  void add_failures(const proto::AgentId& agent, const Member& member,
                    const std::vector<proto::WorkerFailure>& failures);
  void keep_details(int rank);
  void note_lost(const Members::value_type& member, const Context& context);
  [[nodiscard]] bool may_miss_lost_node(const proto::FailedWorker& worker) const;
  void forget_round();
  [[nodiscard]] bool lost_node_explains() const;
  void note_began(const proto::AgentId& agent, const std::optional<proto::JobTime>& round_began);
  void move_times(const proto::JobTime& from, const proto::JobTime& to);
  [[nodiscard]] bool is_comparable(const proto::JobTime& time) const;
  [[nodiscard]] bool awaits_times() const;
  void judge_round(Context& context);
  void change_nodes(Context& context);
  void announce_restart(Context& context, std::chrono::nanoseconds delay) const;
  [[nodiscard]] proto::Finished failed_outcome(proto::Verdict verdict,
                                               std::string no_restart) const;
  void blame_furthest_behind();
  void put_in_job_time();
  void note_losses(const Members::value_type& member, const proto::Losses& losses);
  [[nodiscard]] proto::Leave leave_of(const Member& member, const Context& context) const;
  [[nodiscard]] proto::Finished cancelled_by(const Members::value_type& member,
                                             const proto::Leave& leave) const;
  [[nodiscard]] proto::Losses losses_beside(const proto::AgentId& agent) const;
  [[nodiscard]] std::vector<proto::NodeOfRound> nodes_of_round() const;
  [[nodiscard]] proto::Verdict take_verdict();
  void finish(Context& context, proto::Finished finished);
  void choose_reporter();
  [[nodiscard]] proto::Finished outcome_for(const proto::AgentId& agent) const;
  [[nodiscard]] std::string name_of(const Member& member) const;
  [[nodiscard]] std::string label(const Members::value_type& member) const;
  void say_goodbye(Context& context, const proto::AgentId& agent, const proto::Leave& leave);

  [[nodiscard]] int count(Phase phase) const { return counts_[static_cast<std::size_t>(phase)]; }
  void set_phase(Member& member, Phase phase);
  Members::iterator erase(Members::iterator member);
  void release_rank(const Members::value_type& member);
  [[nodiscard]] Members::iterator member_in_round(const Context& context, proto::RoundNumber round);
  [[nodiscard]] static bool in_round(const Member& member);

  const proto::JobSettings settings_;
  proto::Epoch epoch_;
  const Clock::time_point job_began_;
  JobState state_ = JobState::forming;
  Members members_;
  std::array<int, kPhases> counts_{};                     // of members_, by phase
  std::map<int, proto::AgentId> rank_holders_;            // of the ranks that are insisted on
  std::set<std::pair<int, proto::AgentId>> rank_wishes_;  // of members, insisted on or not
  std::uint64_t joins_ = 0;
  proto::Round round_;  // the last one that has formed: what all its nodes have alike
  proto::RoundNumber next_round_ = 0;
  bool formed_any_ = false;
  std::optional<proto::PastRound> past_;  // of a service that has lost its memory
  Clock::time_point incomplete_not_before_{};
  RestartPolicy policy_;
  int node_changes_ = 0;
  std::string reason_ = "first round";

  // forming
  Clock::time_point forming_since_;
  bool reforming_ = false;  // with the nodes of the last round, as soon as they are back
  std::optional<Clock::time_point> last_call_at_;
  std::optional<Clock::time_point> not_before_;      // the back-off of a restart
  std::optional<Clock::time_point> tell_at_;         // those that wait
  std::optional<proto::FailedWorker> last_culprit_;  // of the round that failed
  std::string change_;  // of nodes, for which the last round ended; empty: it did not
  std::optional<proto::LostNode> lost_node_;  // of the round that stops or has stopped: the first
  std::string last_refusal_;
  std::uint64_t checks_ = 0;                 // so far
  bool has_chosen_ = false;                  // a round forms as soon as those have passed
  std::vector<proto::UnsoundNode> unsound_;  // the newest last
  // running
  std::optional<Clock::time_point> grow_at_;
  // stopping
  std::map<int, proto::FailedWorker> failed_;  // by rank; empty: it stops otherwise
  std::set<int> detailed_;                     // of failed_, those with all their lines
  Clock::time_point failed_at_;                // the first failure
  std::map<proto::AgentId, proto::JobTime>
      began_;                      // the round, on nodes of which times of workers are compared
  proto::ClockId clock_ = 0;       // of the time that was told last
  std::vector<SlowNode> slowest_;  // of the nodes that have stopped
  std::vector<proto::Suspect> still_ran_;                   // of those that have stopped
  std::size_t stacks_kept_ = 0;                             // of still_ran_
  std::vector<proto::EarlyEnd> ended_;                      // of those that have stopped
  std::map<proto::AgentId, proto::ProgramFacts> programs_;  // of nodes with failures
  std::optional<std::uint64_t> furthest_step_;              // of those that have stopped
  bool final_ = false;                                      // no restart can follow
  bool may_save_ = false;                                   // nothing has failed
  std::set<proto::AgentId> lost_;                           // nodes of the round
  proto::JobTime lost_at_;                                  // the earliest last word of one
  std::optional<proto::Leave> last_leave_;                  // of a node that went alone
  std::optional<proto::Finished> ending_;                   // the job was cancelled
  std::map<std::string, proto::Losses> losses_;  // of agents that had any, in all their sessions
  bool has_leftovers_ = false;                   // one of them
  // finished
  std::optional<proto::Finished> outcome_;
  proto::AgentId reporter_;  // of a failure; empty: each node reports it
  std::string reporter_name_;
};

}  // namespace ddprun::rdzv
