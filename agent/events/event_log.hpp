// What happened to the job, as this node saw it: each thing once, in order, the newest ones kept.
// Pure: the caller has the clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "agent/node/node_machine.hpp"
#include "base/exit_status.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// A reason or a line, of which an event has the beginning.
struct EventText {
  static constexpr std::size_t kBytesMax = 1024;
  EventText(const std::string& whole) : text(whole, 0, kBytesMax) {}

  std::string text;
};

/// One worker, by its numbers in the round in which something happened to it.
struct EventWorker {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
};

/// A round has formed, and its workers are about to be started here.
struct RoundBegan {
  proto::RoundNumber number = 0;
  int restart_count = 0;
  int nodes = 1;
  int world_size = 1;
  int first_rank = 0;    ///< of this node
  int kept_workers = 0;  ///< on all nodes
  EventText reason;
};
struct WorkerBegan {
  EventWorker worker;
  EventText problem;  ///< why it could not be started; empty: it was
};
/// It has left its round, and waits for the next one.
struct WorkerLeft {
  EventWorker worker;
  std::optional<std::uint64_t> step;
};
struct WorkerHung {
  EventWorker worker;
  EventText how;
};
/// Its steps take longer than those of the others on this node, without waits.
struct WorkerSlow {
  EventWorker worker;
  double factor = 1;  ///< by the median of the others
  std::chrono::nanoseconds step_time{0};
};
struct WorkerEnded {
  EventWorker worker;
  ExitStatus exit;
  std::chrono::nanoseconds ran_for{0};
  bool was_stopped = false;  ///< after ddprun had begun to stop the round
};
/// The workers of the round are told to end, or to leave it.
struct RoundStopped {
  EventText reason;
};
/// Nothing of the round is left on this node.
struct RoundEnded {
  std::chrono::nanoseconds lasted{0};
};
struct RestartAnnounced {
  EventText reason;
  std::chrono::nanoseconds delay{0};
  int restart_count = 0;  ///< this one included
  int max_restarts = 0;
};
struct NodesAwaited {
  int nodes = 0;  ///< that are there
  int min_nodes = 0;
  int max_nodes = 0;
};
/// The node's check (--preflight).
struct CheckMade {
  bool passed = false;
  EventText why;  ///< it failed
};
/// A signal to the job.
struct SignalCame {
  int signal = 0;
};
/// The workers of this node were asked for a checkpoint.
struct SaveEnded {
  int workers = 0;    ///< that have written it
  EventText problem;  ///< why not all that save when asked have; empty: they have
  std::chrono::nanoseconds took{0};
};
/// The command of --on-notice has ended with 0.
struct NoticeCame {
  EventText text;  ///< its last line
};
/// A line for the user.
struct LinePrinted {
  EventText text;
};
struct JobEnded {
  proto::Finished::Outcome outcome = proto::Finished::Outcome::succeeded;
  EventText reason;
};

using Happening =
    std::variant<RoundBegan, WorkerBegan, WorkerLeft, WorkerHung, WorkerSlow, WorkerEnded,
                 RoundStopped, RoundEnded, RestartAnnounced, NodesAwaited, CheckMade, SignalCame,
                 NoticeCame, SaveEnded, LinePrinted, JobEnded>;

struct JobEvent {
  std::uint64_t number = 0;  ///< from 1, without gaps
  std::chrono::system_clock::time_point time;
  std::optional<proto::RoundNumber> round;  ///< the one that was out; none: there was none yet
  Happening what;
};

class EventLog {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// The newest ones that are kept: some 200 bytes each.
  static constexpr std::size_t kEventsMax = 2048;

  /// What an event means that the machine is about to handle. Many mean nothing to a user.
  void note(const NodeEvent& event, const NodeMachine& machine, Time now);
  void add(Happening what, std::optional<proto::RoundNumber> round, Time now);

  /// The number of the next event.
  [[nodiscard]] std::uint64_t next_number() const { return next_number_; }
  /// The oldest event that is kept and has this number or a higher one; null: there is none.
  [[nodiscard]] const JobEvent* from(std::uint64_t number) const;

 private:
  std::deque<JobEvent> events_;
  std::uint64_t next_number_ = 1;
};

}  // namespace ddprun::agent
