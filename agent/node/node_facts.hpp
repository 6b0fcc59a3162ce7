// What a node's part in the job has to know: its round, what it was asked for, what it has told.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config.hpp"
#include "agent/node/node_events.hpp"

namespace ddprun::agent {

/// What workers leave behind when they have ended: asked to end, given time, killed. Pure; the
/// agent does it.
class Leftovers {
 public:
  using Clock = std::chrono::steady_clock;

  /// Processes that a worker has started often end by themselves a moment after it (Python's
  /// resource tracker): those are not reported.
  static constexpr std::chrono::milliseconds kSettle{100};

  /// What to do now.
  enum class Step {
    nothing,    ///< wait for `gone` or the deadline
    terminate,  ///< name them and send SIGTERM
    kill,       ///< SIGKILL; then `killed`, and the round is over
    over,       ///< no process is left: the round is over
  };

  /// The workers have ended. `any`: something of them is left. `patience`: how long it may take to
  /// end after SIGTERM, at most 0: no time at all; none: SIGKILL follows the first moment, because
  /// the round failed.
  Step begin(bool any, std::optional<Clock::duration> patience, Clock::time_point now);
  /// Nothing is left.
  Step gone();
  /// The user is out of patience.
  Step kill_now();
  /// The round is stopped: they have no more than the first moment.
  void end_patience(Clock::time_point now);
  /// SIGKILL has ended them, or is given up.
  void killed();
  /// To be called when `deadline()` has passed.
  Step deadline_passed(Clock::time_point now);

  [[nodiscard]] std::optional<Clock::time_point> deadline() const { return deadline_; }
  [[nodiscard]] Clock::duration patience() const { return patience_.value_or(kSettle); }
  [[nodiscard]] bool begun() const { return phase_ != Phase::before; }
  [[nodiscard]] bool waiting() const {
    return phase_ == Phase::settling || phase_ == Phase::terminated;
  }
  [[nodiscard]] bool killing() const { return phase_ == Phase::killing; }
  [[nodiscard]] bool over() const { return phase_ == Phase::over; }

 private:
  enum class Phase { before, settling, terminated, killing, over };

  Step end(Step step);

  Phase phase_ = Phase::before;
  std::optional<Clock::duration> patience_;
  std::optional<Clock::time_point> deadline_;
};

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

/// One round on this node.
struct NodeRound {
  NodeRound(proto::Round numbers, WorkerGroup workers, Clock::time_point now)
      : round(std::move(numbers)), group(std::move(workers)), started_at(now) {}

  /// What the core is told of a worker that has ended.
  [[nodiscard]] proto::WorkerFailed failure_of(int local_rank) const;
  /// What it is told of the one that hangs.
  [[nodiscard]] proto::WorkerFailed failure_of_hang(Clock::time_point now) const;
  /// What it is told of one that has left the round unasked.
  [[nodiscard]] proto::WorkerFailed failure_of_leaver(int local_rank, Clock::time_point now) const;
  /// A worker did, or hung, or had to be stopped.
  [[nodiscard]] bool has_failures() const;
  /// How many workers run that have not left the round.
  [[nodiscard]] int running() const;
  /// Those that wait for the next round, by local rank.
  [[nodiscard]] std::vector<proto::KeptWorker> kept() const;
  /// How long what the workers left may take to end after SIGTERM; none: as long as it takes to see
  /// whether it ends by itself, because the round failed.
  [[nodiscard]] std::optional<Clock::duration> leftovers_patience(Clock::duration grace_period,
                                                                  Clock::time_point now) const;

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
  bool is_being_read = false;                  ///< nothing is left; last words are on their way
  std::optional<proto::FailedWorker> culprit;  ///< told before the next round, which has to wait
  std::vector<int> leavers;                    ///< local ranks that have left it unasked
  /// Workers that were to go on in this round, and have ended while they waited for it.
  struct EndedBefore {
    int local_rank = 0;
    WorkerRecord worker;
  };
  std::vector<EndedBefore> ended_before;
};

/// How a worker's leaving a round unasked is described.
inline constexpr const char* kLostAnother =
    "it has lost another worker and waits for the next round";

/// The node's check (--preflight).
struct NodeCheck {
  std::optional<std::uint64_t> running;  ///< its number
  bool has_passed = false;               ///< one of them
  std::optional<std::string> failure;    ///< of the newest one: why
};

/// That this node is to end, as signals have told it.
struct NodeLeave {
  std::optional<JobSignal> last_signal;
  std::optional<int> signal;  ///< by which it leaves the job
  /// By which it leaves once nothing is left: told so while only leftovers of a success ran.
  std::optional<JobSignal> once_clear;
};

struct NodeFacts {
  explicit NodeFacts(const AgentConfig& borrowed) : config(borrowed) {}

  /// No worker of this node runs: there was none, or all have ended.
  [[nodiscard]] bool has_no_workers() const { return !round || round->group.ended(); }
  /// Until the job is over once it ends. The outcome may have to wait for a node that is silent.
  [[nodiscard]] std::chrono::milliseconds end_limit() const;
  /// From now until what was sent SIGKILL is given up.
  [[nodiscard]] Clock::duration kill_limit(Clock::time_point now) const;
  /// By which the node takes part in the next round.
  [[nodiscard]] proto::Join join() const;
  /// When TimePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  const AgentConfig& config;
  NodeState state = NodeState::waiting;
  std::optional<NodeRound> round;    ///< the one that is out, or the last one
  std::optional<Prepared> prepared;  ///< for the next round
  NodeLeave leave;
  NodeCheck check;
  std::string shown_reason;     ///< of the last round's end, to the user who waits
  bool has_rendezvous = false;  ///< the others lose it if this node goes
  bool is_spare = false;        ///< others run the round that is out
  bool is_paused = false;       ///< by Ctrl-Z
  bool awaits_gpus = false;     ///< before it joins again
  int restart_count = 0;        ///< by the core's last message that told it
};

}  // namespace ddprun::agent
