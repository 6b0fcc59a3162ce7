// The nodes of the job, rounds, ranks, the restart budget and the outcome, as a pure state machine:
// (state, event, now) -> actions and the reason. One node is the one-member case. No sockets, no
// clock, no threads.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/membership/restart_policy.hpp"

namespace ddprun::rdzv {

using Clock = std::chrono::steady_clock;

/// Something that an agent said.
struct FromAgent {
  proto::AgentId agent;
  proto::AgentMessage message;
};
/// The agent is gone without a word: its connection closed, or it missed too many keep-alives.
struct AgentLost {
  proto::AgentId agent;
};
/// Time has moved past `Membership::deadline()`.
struct DeadlinePassed {};

using MembershipEvent = std::variant<FromAgent, AgentLost, DeadlinePassed>;

/// One message to one agent.
struct Send {
  proto::AgentId to;
  proto::MembershipMessage message;
};

struct MembershipActions {
  std::vector<Send> sends;
  std::string
      log;  ///< one line: "round=3 forming->running event=join nodes=2"; empty when nothing changed
};

enum class JobState {
  forming,   ///< agents join; no workers
  running,   ///< a round is out
  stopping,  ///< the round's agents stop their workers
  finished,  ///< terminal; has an outcome
};
inline constexpr int kJobStates = 4;

enum class EventKind { join, started, worker_failed, workers_done, stopped, leave, lost, deadline };
inline constexpr int kEventKinds = 8;

std::string_view to_string(JobState state);
std::string_view to_string(EventKind kind);

/// "node2" before "node10": runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

/// The membership core of one job.
class Membership {
 public:
  Membership(proto::JobSettings settings, Clock::time_point now);

  MembershipActions on(const MembershipEvent& event, Clock::time_point now);

  /// When DeadlinePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  [[nodiscard]] JobState state() const { return state_; }
  [[nodiscard]] proto::RoundNumber next_round() const { return next_round_; }
  [[nodiscard]] int restart_count() const { return policy_.restart_count(); }
  /// Set once the state is finished.
  [[nodiscard]] const std::optional<proto::Finished>& outcome() const { return outcome_; }

  /// What the core does on an event in a state: the name of the handler, "ignored" where the event
  /// has no meaning there.
  static std::string_view response(JobState state, EventKind kind);

 private:
  struct Member {
    enum class Phase { waiting, active, done, stopped };
    Phase phase = Phase::waiting;
    proto::Join join;
    std::uint64_t order = 0;   // of joining
    int last_group_rank = -1;  // sticky
    int group_rank = -1;       // in the round that is out
    int first_rank = 0;
    std::optional<proto::Leave> leaving;
  };
  struct Context {
    const proto::AgentId& agent;
    const proto::AgentMessage* message;  // null for lost and deadline
    Clock::time_point now;
    MembershipActions& actions;
  };
  using Handler = void (Membership::*)(Context&);
  struct Response {
    Handler handler;
    std::string_view name;
  };
  static const Response kTable[kJobStates][kEventKinds];

  // The handlers of the table.
  void ignore(Context& context);
  void join_forming(Context& context);
  void join_running(Context& context);
  void join_stopping(Context& context);
  void fail_running(Context& context);
  void done_running(Context& context);
  void stopped_stopping(Context& context);
  void leave_forming(Context& context);
  void leave_running(Context& context);
  void leave_stopping(Context& context);
  void lost_round(Context& context);
  void deadline_forming(Context& context);
  void greet_late(Context& context);

  void wait(Context& context);
  void try_form(Context& context);
  void form(Context& context);
  void stop_round(Context& context, const std::string& reason, bool final);
  void check_stopped(Context& context);
  void add_failures(const proto::AgentId& agent, const Member& member,
                    const std::vector<proto::WorkerFailure>& failures);
  void judge_round(Context& context);
  void announce_restart(Context& context, std::chrono::nanoseconds delay) const;
  [[nodiscard]] proto::Finished failed_outcome(proto::Verdict verdict,
                                               std::string no_restart) const;
  void start_forming(Context& context, Clock::duration delay = {});
  void finish(Context& context, proto::Finished finished);
  [[nodiscard]] int count(Member::Phase phase) const;
  [[nodiscard]] bool in_round(const Member& member) const;
  [[nodiscard]] std::vector<proto::AgentId> ranked_waiting() const;

  proto::JobSettings settings_;
  JobState state_ = JobState::forming;
  std::map<proto::AgentId, Member> members_;
  std::uint64_t joins_ = 0;
  proto::RoundNumber next_round_ = 0;
  RestartPolicy policy_;
  std::string reason_ = "first round";
  Clock::time_point forming_since_;
  std::optional<Clock::time_point> last_call_at_;
  std::optional<Clock::time_point> not_before_;      // forming: the back-off of a restart
  std::optional<std::uint64_t> furthest_step_;       // stopping: of those that have stopped
  bool final_ = false;                               // stopping: no restart can follow
  Clock::time_point failed_at_;                      // stopping: its first failure
  std::vector<proto::Suspect> still_ran_;            // stopping: of those that have stopped
  std::vector<proto::FailedWorker> failed_;          // stopping: empty: it stops otherwise
  std::optional<proto::FailedWorker> last_culprit_;  // forming: of the round that failed
  std::optional<proto::Finished> outcome_;
};

}  // namespace ddprun::rdzv
