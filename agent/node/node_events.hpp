// What a node's part in the job is driven by, and what it asks for: the vocabulary of NodeMachine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/progress/found_hang.hpp"
#include "agent/workers/worker_group.hpp"
#include "base/exit_status.hpp"
#include "machine/processes/process_tree.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

// Events
// -------------------------------------------------------------------------

/// A signal that ends the job, SIGTSTP or SIGCONT.
struct JobSignal {
  int signal = 0;
  std::chrono::nanoseconds at{0};  ///< of the monotonic clock
  bool cancels = false;            ///< the whole job, also where SIGTERM would only end our part
};
/// Answers Prepare: where the next round's store would be, or why the job can't go on.
struct Prepared {
  std::string store_addr;
  std::uint16_t store_port = 0;
  int store_clients_max = 0;    ///< for which there are descriptors
  bool has_rendezvous = false;  ///< the others lose it if this node goes
  std::string problem;
};
struct StartedWorker {
  int pid = 0;
  Clock::time_point at{};
  std::string problem;  ///< not empty: why it could not be started
};
/// Answers StartWorkers, by local rank. Comes before any end of these workers.
struct WorkersStarted {
  std::vector<StartedWorker> workers;
};
/// The round cannot go on here: for example, a thread that it needs could not be started.
struct CannotGoOn {
  std::string problem;
};
/// A worker has ended; where it failed, also what the end of its output tells.
struct WorkerExited {
  int local_rank = 0;
  ExitStatus exit;
  bool lost_a_peer = false;  ///< its output tells of a lost peer
  bool timed_out = false;    ///< its output tells of a time-out
  std::optional<ResourceUse> used = std::nullopt;
  std::optional<Clock::time_point> at = std::nullopt;  ///< when that was seen; none: now
};
/// A worker has said that it can take part in another round, or that it cannot any more.
struct WorkerCanWait {
  int local_rank = 0;
  bool can = true;
};
/// A worker has left its round, and waits for the next one.
struct WorkerWaits {
  int local_rank = 0;
  std::optional<std::uint64_t> step;  ///< its state is that after so many steps; none: it has none
};
/// Answers StopWorkers: how they were just before, by local rank.
struct ConditionsSeen {
  std::vector<machine::ChildCondition> workers;
};
/// Answers LookAtSuspects.
struct SuspectsSeen {};
/// Answers RunCheck.
struct CheckEnded {
  bool passed = false;
  std::string text;  ///< why it failed
  std::chrono::nanoseconds took{0};
};
/// Answers AwaitGpus.
struct GpusAwaited {};
/// Answers LookForLeftovers and KillLeftovers; and while leftovers are waited for, each end of a
/// child.
struct LeftoversSeen {
  bool any = false;
};
/// Answers ReadOutput.
struct OutputRead {};
/// Time has moved past `NodeMachine::deadline()`.
struct TimePassed {};

using NodeEvent =
    std::variant<JobSignal, Prepared, WorkersStarted, CannotGoOn, WorkerExited, WorkerCanWait,
                 WorkerWaits, ConditionsSeen, FoundHang, SuspectsSeen, CheckEnded, GpusAwaited,
                 LeftoversSeen, OutputRead, TimePassed, proto::Round, proto::RestartPlanned,
                 proto::Waiting, proto::Check, proto::Remark, proto::Stop, proto::Finished>;

// Actions
// -------------------------------------------------------------------------

/// Make ready for a round: our output, and the place where its workers will meet.
struct Prepare {};
/// Run the command that tells whether this node is sound.
struct RunCheck {};
/// End it, and forget it.
struct StopCheck {};
/// Wait until nothing uses the GPUs that this node has claimed, or for a while.
struct AwaitGpus {};
/// To the membership core.
struct Send {
  proto::AgentMessage message;
};
/// A line for the user.
struct Notice {
  std::string line;
};
/// End what is left of workers that do not go on in the round; start its others, offer it a store,
/// watch them, and tell the round to those that go on.
struct StartWorkers {
  struct Dropped {
    int local_rank = 0;
    StartRound start = {};
  };
  std::vector<Dropped> dropped = {};  ///< those that wait and do not go on
  /// There are such ones, or one has ended while it waited: what they have started may still run.
  bool clears = false;
};
/// Send the signal to the process group of every worker that runs and is to end with its round.
struct SignalWorkers {
  int signal = 0;
};
/// Send the signal to the process group of every worker that runs, after a look at their
/// conditions. Those that are suspended are continued, all of them where `resume` says so: they
/// could not act on the signal. Workers that are asked to wait for the next round get that message
/// instead, unless they are suspended.
struct StopWorkers {
  int signal = 0;
  bool resume = false;
  bool may_save = false;  ///< nothing has failed, which is written into their progress pages
};
/// Look for hangs, timers and suspects no more.
struct StopWatching {};
/// A worker has timed out waiting for its peers: take the stacks of those that still run.
struct LookAtSuspects {
  int local_rank = 0;
};
/// Whether the workers have left processes behind.
struct LookForLeftovers {};
/// Name them and send SIGTERM.
struct TerminateLeftovers {
  Clock::duration patience;  ///< until SIGKILL
};
/// SIGKILL, and wait for at most so long until it has ended them.
struct KillLeftovers {
  Clock::duration limit;
};
/// Its workers have failed and nothing of them is left: read what they wrote last.
struct ReadOutput {};
/// Nothing of the round is left: gather the evidence and send Stopped.
struct ReportRound {};
/// Tell the warden that the job is over within so long.
struct EndWithin {
  std::chrono::milliseconds limit;
};
/// Name the processes that SIGKILL has not ended yet; they are given up after so long.
struct NameStuck {
  std::chrono::seconds left;
};
/// Ctrl-Z: stop the workers, then the warden.
struct PauseJob {};
/// Continue; with the workers, where we had stopped them.
struct ResumeJob {
  bool workers = false;
};
/// The job is over.
struct EndJob {
  proto::Finished finished;
  bool round_open = false;     ///< its last round has not been reported
  Clock::duration kill_limit;  ///< for what is left of it
};

using NodeAction = std::variant<Prepare, RunCheck, StopCheck, AwaitGpus, Send, Notice, StartWorkers,
                                SignalWorkers, StopWorkers, StopWatching, LookAtSuspects,
                                LookForLeftovers, TerminateLeftovers, KillLeftovers, ReadOutput,
                                ReportRound, EndWithin, NameStuck, PauseJob, ResumeJob, EndJob>;
using NodeActions = std::vector<NodeAction>;

}  // namespace ddprun::agent
