// The workers of one agent in one round, as a pure state machine: they start, fail and stop as one.
// It decides when a stop signal becomes SIGKILL and when the group has ended; it decides nothing
// about restarting.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_status.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

using Clock = std::chrono::steady_clock;

/// What follows for the owner of the group, in order.
struct GroupActions {
  int signal = 0;         ///< send this to every live worker's process group; 0: nothing
  bool failed = false;    ///< tell the membership core: the worker failed by itself
  bool all_done = false;  ///< tell it: every worker ended with exit code 0
  bool ended = false;     ///< no worker is left; what they left behind can go
};

/// The round in which a worker was started: its files and streams have its numbers.
struct StartRound {
  StartRound() = default;
  StartRound(const proto::Round& round)
      : number(round.number), restart_count(round.restart_count) {}

  proto::RoundNumber number = 0;
  int restart_count = 0;
};

/// Whether a worker can take part in another round, and how far it is on the way there.
enum class Keeping {
  no,        ///< it ends with its round
  possible,  ///< it has said that it can
  asked,     ///< it is to leave the round that is being stopped
  waits,     ///< it has left its round and waits for the next one
};

/// One worker of a round: how it runs, and how it has ended.
struct WorkerRecord {
  int pid = 0;
  StartRound start;
  Keeping keeping = Keeping::no;
  std::optional<std::uint64_t> step = {};  ///< that waits: its state is that after so many steps
  std::optional<ExitStatus> exit = {};     ///< none: it runs
  std::optional<ResourceUse> used = {};
  Clock::time_point started_at{};
  Clock::time_point ended_at{};
  std::chrono::nanoseconds ran_for{0};
  bool stopped_by_us = false;  ///< it ended after we had begun to stop the group
  bool killed_by_us = false;   ///< it ended after our SIGKILL
  bool was_dying = false;      ///< it was ending already when we began to stop the group
  bool was_suspended = false;  ///< a signal held it when we began to stop the group
  std::string error = {};      ///< why it could not be started

  /// It was started, and has not been reaped: its pid is its own.
  [[nodiscard]] bool running() const { return pid > 0 && !exit; }
  /// It runs, and is to end with its round.
  [[nodiscard]] bool gets_signals() const { return running() && keeping <= Keeping::possible; }
  [[nodiscard]] bool waits() const { return running() && keeping == Keeping::waits; }
};

class WorkerGroup {
 public:
  /// `grace_period`: from the stop signal to SIGKILL; 0: SIGKILL at once. `kill_timeout`: how long
  /// that may take to end a worker. `start`: the round.
  WorkerGroup(int workers, Clock::duration grace_period, Clock::duration kill_timeout,
              const StartRound& start = {});

  /// A worker of an older round goes on in this one.
  void keep(int local_rank, const WorkerRecord& worker);
  /// It has ended before the group began.
  void forget(int local_rank) { record_of(local_rank).pid = 0; }
  /// A worker runs.
  void started(int local_rank, int pid, Clock::time_point now);
  /// A worker could not be started. Counts as a failure of its own.
  GroupActions not_started(int local_rank, const std::string& error);
  GroupActions exited(int local_rank, ExitStatus exit, Clock::time_point now,
                      std::optional<ResourceUse> used = std::nullopt);

  /// Whether a worker can take part in another round. Before `stop`.
  void can_wait(int local_rank, bool can);
  /// Ends the group with `signal` and, after the grace period, with SIGKILL. Repeated: nothing new
  /// happens. `keep`: workers that can are asked to wait for the next round instead, which they may
  /// do in the same time.
  GroupActions stop(int signal, Clock::time_point now, bool keep = false);
  /// A worker has left its round. Without having been asked: it counts as running until `stop`.
  GroupActions waits(int local_rank, std::optional<std::uint64_t> step);
  /// It has begun to end, though not by our doing.
  void already_dying(int local_rank);
  /// A signal (SIGSTOP) that is not ours holds it: it is ended, for it could not answer.
  void suspended(int local_rank);
  /// SIGKILL now, also for workers that wait: the second Ctrl-C.
  GroupActions kill_now(Clock::time_point now);
  /// To be called when `deadline()` has passed.
  GroupActions deadline_passed(Clock::time_point now);

  /// When the grace period or, after SIGKILL, its time-out ends; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const { return deadline_; }
  /// No worker is left but those that wait for the next round.
  [[nodiscard]] bool ended() const { return live_ == 0; }
  [[nodiscard]] bool any_waits() const;
  [[nodiscard]] bool stopping() const { return phase_ != Phase::running; }
  [[nodiscard]] bool killed() const { return phase_ == Phase::killed; }
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const { return workers_; }

 private:
  [[nodiscard]] WorkerRecord& record_of(int local_rank) {
    return workers_[static_cast<std::size_t>(local_rank)];
  }
  /// Not those that wait for the next round.
  GroupActions kill_live(Clock::time_point now);
  GroupActions end_if_empty(GroupActions actions);
  GroupActions give_up(Clock::time_point now);

  std::vector<WorkerRecord> workers_;
  enum class Phase { running, stopping, killed };

  Clock::duration grace_period_;
  Clock::duration kill_timeout_;
  int live_;  // not yet known to have ended, without those that wait for the next round
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace ddprun::agent
