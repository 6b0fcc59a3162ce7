// A node's part in the job, as a pure state machine: (state, event, now) -> actions. It decides
// what follows from signals, the ends of workers, hangs, leftovers and the membership core's
// messages; whether there is another round is the core's decision. No sockets, no clock, no system
// calls: the shell around it (agent_loop.hpp) obeys.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config.hpp"
#include "agent/control/leftovers.hpp"
#include "agent/control/node_events.hpp"

namespace ddprun::agent {

enum class NodeState {
  waiting,    ///< for a round, in which it takes part
  starting,   ///< the round's workers are being started
  running,    ///< they run; or one has failed, and what to do is not known yet
  finishing,  ///< all have succeeded; what they left behind is in the way
  stopping,   ///< they were told to end
  clearing,   ///< they have ended so; what they left behind is in the way
  done,       ///< they have succeeded, which the core knows
  ending,     ///< it takes part in no other round, and waits for the job's outcome
  over,       ///< terminal
};
inline constexpr int kNodeStates = 9;

enum class NodeEventKind {
  signal,
  signal_again,  ///< another one after that
  prepared,
  started,
  problem,
  exited,
  conditions,
  hang,
  suspects,
  check_ended,
  gpus_awaited,
  leftovers,
  deadline,
  round,
  restart_planned,
  nodes_missing,
  check,
  remark,
  stop,
  finished,
};
inline constexpr int kNodeEventKinds = 20;

std::string_view to_string(NodeState state);
std::string_view to_string(NodeEventKind kind);

/// One round on this node.
struct NodeRound {
  NodeRound(proto::Round numbers, WorkerGroup workers, Clock::time_point now)
      : round(std::move(numbers)), group(std::move(workers)), started_at(now) {}

  proto::Round round;
  WorkerGroup group;
  Clock::time_point started_at;
  bool failed = false;            ///< a worker did, and the core was told
  std::optional<FoundHang> hang;  ///< for which we asked for its end
  /// While suspects are looked at, or the peer that a worker has lost may be ending.
  std::vector<proto::WorkerFailed> kept_back;
  std::optional<Clock::time_point> kept_until;  ///< of the latter
  std::optional<proto::Stop> stop;              ///< told to end
  std::optional<Clock::time_point> stopped_at;
  int stop_signal = 0;                             ///< with which
  std::optional<Clock::time_point> patience_ends;  ///< of a stop that the user asked for
  std::optional<Clock::time_point> kill_deadline;  ///< of all that was sent SIGKILL
  std::optional<Clock::time_point> countdown_at;   ///< then the user is told how long it may take
  Leftovers leftovers;
  std::optional<Clock::time_point> uneven_at;  ///< then the user is told that some have ended
  bool stuck = false;                          ///< some of them could not be killed
  std::optional<proto::FailedWorker> culprit;  ///< told before the next round, which has to wait
};

class NodeMachine {
 public:
  /// How often a user who waits for the end is told how long it may take.
  static constexpr std::chrono::seconds kCountDownEvery{5};

  /// When a worker has ended well for so long while others run, the user is told once.
  static constexpr std::chrono::seconds kUnevenAfter{30};

  /// A worker that leaves closes its connections before its process ends: Python needs 50 to 150 ms
  /// for that. Who has lost it by then may have failed first.
  static constexpr std::chrono::milliseconds kPeerEndsWithin{500};

  /// The configuration is borrowed. Waits for the first Prepared, unasked.
  explicit NodeMachine(const AgentConfig& config) : config_(config) {}

  NodeActions on(NodeEvent event, Clock::time_point now);

  /// When TimePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  [[nodiscard]] NodeState state() const { return state_; }
  /// The one that is out, or the last one; null: there was none.
  [[nodiscard]] const NodeRound* round() const { return round_ ? &*round_ : nullptr; }
  /// By the core's last message that told it.
  [[nodiscard]] int restart_count() const { return restart_count_; }
  /// Some run, or what they left; or they are about to be started.
  [[nodiscard]] bool may_have_workers() const {
    return state_ != NodeState::waiting && state_ != NodeState::done &&
           state_ != NodeState::ending && state_ != NodeState::over;
  }
  /// By Ctrl-Z.
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] bool waits_for_leftovers() const { return round_ && round_->leftovers.waiting(); }

  /// What follows an event in a state, in words; "ignored" where the event has no meaning there.
  static std::string_view response(NodeState state, NodeEventKind kind);

 private:
  struct Context {
    NodeEvent& event;
    Clock::time_point now;
    NodeActions& actions;
    void act(NodeAction action) { actions.push_back(std::move(action)); }
  };
  using Handler = void (NodeMachine::*)(Context&);
  struct Response {
    Handler handler;
    std::string_view name;
  };
  using Table = std::array<std::array<Response, kNodeStates>, kNodeEventKinds>;
  static const Table kTable;

  // The handlers of the table.
  void ignore(Context& context);
  void leave(Context& context);
  void leave_once_clear(Context& context);
  void leave_waiting(Context& context);
  void leave_now(Context& context);
  void kill_leftovers(Context& context);
  void kill_workers(Context& context);
  void join(Context& context);
  void keep_place(Context& context);
  void note_started(Context& context);
  void leave_for_problem(Context& context);
  void note_exit(Context& context);
  void note_conditions(Context& context);
  void report_hang(Context& context);
  void report_kept_back(Context& context);
  void join_again(Context& context);
  void note_leftovers(Context& context);
  void group_deadline(Context& context);
  void leftovers_deadline(Context& context);
  void warn_of_ended_workers(Context& context);
  void check(Context& context);
  void note_check(Context& context);
  void start(Context& context);
  void announce_restart(Context& context);
  void announce_wait(Context& context);
  void pass_on(Context& context);
  void stop_when_started(Context& context);
  void stop(Context& context);
  void answer_stop(Context& context);
  void stop_harder(Context& context);
  void clear_harder(Context& context);
  void end(Context& context);

  [[nodiscard]] NodeEventKind kind_of(const NodeEvent& event) const;
  bool pause_or_resume(const JobSignal& signal, NodeActions& actions);
  void end_job(Context& context, proto::Finished finished, bool round_open);
  [[nodiscard]] bool is_repeated(const JobSignal& signal) const;
  void leave_by(Context& context, int signal);
  void announce_round(Context& context, const proto::Round& round) const;
  void announce_place(Context& context, const proto::Round& round) const;
  void send_join(Context& context);
  void stop_check(Context& context);
  void begin_stop(Context& context);
  void follow(Context& context, const GroupActions& group);
  void clear(Context& context);
  void take(Context& context, Leftovers::Step step);
  void round_is_clear(Context& context);
  void report(Context& context);
  [[nodiscard]] proto::WorkerFailed failure_of(int local_rank) const;
  void report_failure(Context& context, int local_rank);
  [[nodiscard]] bool keep_back(const WorkerExited& exited) const;
  void count_down(Context& context);
  [[nodiscard]] std::string grace_period() const;
  [[nodiscard]] std::chrono::milliseconds end_limit() const;
  [[nodiscard]] Clock::duration kill_limit(Clock::time_point now) const;

  const AgentConfig& config_;
  NodeState state_ = NodeState::waiting;
  std::optional<NodeRound> round_;
  std::optional<Prepared> prepared_;  // for the next round
  std::optional<JobSignal> last_signal_;
  std::optional<int> leaving_;            // told by this signal to end
  std::optional<int> leaves_once_clear_;  // told so while only leftovers of a success ran
  std::string shown_reason_;              // of the last round's end, to the user who waits
  bool has_rendezvous_ = false;
  bool is_spare_ = false;  // others run the round that is out
  bool paused_ = false;
  bool awaits_gpus_ = false;            // before it joins again
  std::optional<std::uint64_t> check_;  // that runs: its number
  bool is_checked_ = false;             // one has passed
  std::optional<std::string> unsound_;  // the newest has failed: why
  int restart_count_ = 0;
};

}  // namespace ddprun::agent
