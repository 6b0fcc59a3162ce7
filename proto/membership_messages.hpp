// What agents and the membership core say to each other. One node uses these structs in-process;
// several nodes send them as frames. Messages only: no decision is made here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/describe.hpp"
#include "base/exit_status.hpp"
#include "proto/job_settings.hpp"
#include "proto/worker_failure.hpp"

namespace ddprun::proto {

/// One life of a job under its run id; a newer one is higher. A service that has lost its memory
/// begins another.
using Epoch = std::uint64_t;

/// Number of a round, from 0; it only rises within an epoch.
using RoundNumber = std::uint64_t;

/// Names an agent within its job: unique among live agents, stable through its reconnections.
using AgentId = std::string;

/// Tells the clocks of rendezvous services apart: one that has taken a job over on another machine
/// counts its time otherwise. 0: it is not told which one.
using ClockId = std::uint64_t;

/// An instant by the clock of the rendezvous service, which all nodes of a job can compare. It was
/// no more than `uncertainty` sooner or later.
struct JobTime {
  std::chrono::nanoseconds at{0};
  std::chrono::nanoseconds uncertainty{0};
  ClockId clock = 0;
};

// From an agent to the membership core
// -------------------------------------------------------------------------

/// The last round that a node took part in: what a service without memory of it has to know.
struct PastRound {
  Epoch epoch = 0;
  RoundNumber number = 0;
  int restart_count = 0;
};
/// A worker that has left its round and waits for the next one, with its memory.
struct KeptWorker {
  int local_rank = 0;
  RoundNumber round = 0;  ///< that it has left
  /// Its state is that after so many steps; none: it has no state, and gets another worker's.
  std::optional<std::uint64_t> step = std::nullopt;

  friend bool operator==(const KeptWorker&, const KeptWorker&) = default;
};
/// "I am ready to take part in the next round with so many workers; a store for it would listen
/// here."
struct Join {
  int local_world_size = 0;
  std::string role = "default";
  std::optional<int> requested_group_rank;  ///< --node-rank
  bool insists_on_rank = false;  ///< without that rank it can't take part (static rendezvous)
  std::string node_name;  ///< breaks ties in rank order, in natural order (node2 before node10)
  std::string boot_id;    ///< of the kernel it runs on
  std::chrono::nanoseconds age{0};  ///< since the agent was started
  std::string store_addr;
  std::uint16_t store_port = 0;
  int store_clients_max = 0;  ///< for which that store has descriptors; 0: not said
  JobSettings settings;       ///< as this node's user gave them
  std::optional<PastRound> was_in;
  bool wants_report = false;          ///< it writes the job's report to a file
  bool checks_first = false;          ///< it takes part only after a Check that it passed
  std::vector<KeptWorker> kept = {};  ///< by local rank
  bool knows_kept = false;            ///< its workers would learn of kept ones
};
/// Every worker of the round has been exec'd.
struct Started {
  RoundNumber round = 0;
};
/// A worker of the round failed by itself: what is known at once. One message for the first, more
/// may follow; the evidence comes with Stopped.
struct WorkerFailed {
  RoundNumber round = 0;
  int local_rank = 0;
  int pid = 0;
  ExitStatus exit;
  std::chrono::nanoseconds ran_for{0};
  std::chrono::nanoseconds at{0};  ///< since the start of the round on its node
  std::string error;               ///< empty, or why the worker could not be started
  std::string hang;                ///< empty, or how it hangs: then it still runs
  std::optional<JobTime> round_began = std::nullopt;  ///< as Stopped's
};
/// The worker that is furthest behind, among those of a node that report their progress.
struct SlowestWorker {
  WorkerFailure as_hang;    ///< what it counts as where all others waited for it; has progress
  std::uint32_t place = 0;  ///< within its step
  std::chrono::nanoseconds silent_for{0};  ///< it has reported nothing new
};
/// What the report of a job counts besides failures.
struct Losses {
  std::uint64_t dropped_bytes = 0;     ///< of the workers' output
  std::vector<std::string> leftovers;  ///< processes that could not be killed, and why
};
/// All workers of the round ended with exit 0.
struct WorkersDone {
  RoundNumber round = 0;
  Losses losses = {};  ///< as Stopped's
};
/// A worker that neither failed nor ended before its round was stopped.
struct RunningWorker {
  int local_rank = 0;
  int pid = 0;
  std::optional<WorkerProgress> progress;  ///< where it reported how far it is
  std::vector<std::string> stacks;         ///< of its threads, in lines; where they were taken
  bool suspended = false;  ///< a signal (SIGSTOP) held it when its round was stopped
};
/// How the workers of a node were started, as far as hints of the report depend on it.
struct ProgramFacts {
  std::string python = {};  ///< under which the workers run; empty: none that we chose
  /// The active environment (venv, conda), where that Python belongs to another one; else empty.
  std::string other_environment = {};
  bool python_is_wanted = false;   ///< PYTHON_EXEC names it
  bool shows_crashes = false;      ///< that Python prints its stacks if a signal ends it
  std::string stdin_goes_to = {};  ///< --stdin=MODE: `rank0` (local rank 0), `all` or `none`
  /// The user has not named the port of the workers' store.
  bool chooses_store_port = false;
  std::string program = {};  ///< as typed
  /// Options behind it that are spelled as ddprun's, without values. Empty for a program of ours,
  /// which says itself to which program an option belongs.
  std::vector<std::string> arguments = {};
};
inline constexpr std::size_t kArgumentsMax = 64;
/// A worker that had ended with exit code 0 before its round was stopped.
struct EndedWorker {
  int local_rank = 0;
  int pid = 0;
  std::chrono::nanoseconds at{0};  ///< since the start of the round on its node
};
/// Nothing of the round is left on this node. Every worker that failed is in `failures`, with all
/// that was seen of it; workers that only did as they were told are not. A service with another
/// clock is told again, without failures, when the round began.
struct Stopped {
  RoundNumber round = 0;
  std::vector<WorkerFailure> failures;
  /// The furthest step that one of its workers reported; none: no worker did.
  std::optional<std::uint64_t> furthest_step = std::nullopt;
  std::vector<RunningWorker> still_ran = {};
  /// When the round began on this node. None: it is the job's only one.
  std::optional<JobTime> round_began = std::nullopt;
  Losses losses = {};                                   ///< of this agent, since it was started
  std::optional<SlowestWorker> slowest = std::nullopt;  ///< when the round was stopped
  std::vector<EndedWorker> ended = {};
  std::optional<ProgramFacts> program = std::nullopt;  ///< where any failed
};
/// The agent goes away: it was told to stop (`signal`), or it cannot go on (`error`).
struct Leave {
  int signal = 0;
  std::string error;
  /// The job ends on all nodes, not only this node's part in it. From a spare that means its own
  /// part.
  bool cancels = false;
  bool hosts = false;  ///< the rendezvous goes with the agent, and so the job
};
/// Answers Check.
struct Checked {
  std::uint64_t number = 0;  ///< the Check's
  bool passed = false;
  std::string text = {};  ///< why it failed: how the command ended, and what it printed last
  bool hosts = false;     ///< as Leave's, should it have failed
};
/// A person wants all workers of the job to be started anew, as after a change of their program.
/// Nothing has failed, so it costs no restart.
struct AskRestart {};
using AgentMessage =
    std::variant<Join, Started, WorkerFailed, WorkersDone, Stopped, Leave, Checked, AskRestart>;

// From the membership core to one agent
// ------------------------------------------------------------------------

/// A worker that failed, with its place in the job.
struct FailedWorker {
  AgentId agent;
  int rank = -1;  ///< RANK in the round in which it failed
  WorkerFailure failure;
  std::string node = {};  ///< its agent's node_name; empty: the job has one node
};

/// A round has formed. Carries only the agent's own numbers.
struct Round {
  Epoch epoch = 0;
  RoundNumber number = 0;
  std::string reason;  ///< "first round", "worker failed: rank 1, killed by SIGKILL", ...
  int group_rank = 0;
  int group_world_size = 1;
  int first_rank = 0;  ///< RANK of local rank 0
  int world_size = 1;
  int first_role_rank = 0;
  int role_world_size = 1;
  int restart_count = 0;  ///< restarts after failures so far, one count for the whole job
  int max_restarts = 0;
  std::string master_addr;
  std::uint16_t master_port = 0;
  /// The worker that failed the round before, if one did; without last lines and stacks.
  std::optional<FailedWorker> last_culprit = std::nullopt;
  /// Local ranks of this node whose workers of the last round go on; all others are started.
  std::vector<int> keep = {};
  int kept_workers = 0;  ///< on all nodes; 0: `source_rank` and `source_step` say nothing
  int source_rank = 0;   ///< of the kept worker with the newest state, which all others get
  std::uint64_t source_step = 0;  ///< after so many steps it is
};
/// A failed round is tried again, though not at once: the next one forms after `delay`.
struct RestartPlanned {
  std::string reason;  ///< as the round's
  std::chrono::nanoseconds delay{0};
  int restart_count = 0;  ///< this restart included
  int max_restarts = 0;
  std::optional<FailedWorker> culprit = std::nullopt;  ///< without last lines and stacks
};
/// How it shows that a node is lost.
enum class LossSign {
  ended,     ///< its connection ended: its agent is gone, and nothing is left there
  silent,    ///< it said nothing for longer than its lease
  cut_off,   ///< it was silent, ended its workers, and has come back
  rebooted,  ///< its machine was started again
  fenced,    ///< a person has said that it is dead
};
/// A node that is gone from a round without a word.
struct LostNode {
  std::string node;
  int first_rank = 0;  ///< of its workers
  int workers = 0;
  LossSign sign = LossSign::ended;
  std::chrono::nanoseconds silent_for{0};  ///< from its last word until it counted as lost
  int more = 0;                            ///< nodes that were lost after it in the same round
  bool silent_for_longer = false;          ///< silent_for only counts from the service's start
};
/// The round cannot form yet. Comes again while that is so, to some of those that wait.
struct Waiting {
  int nodes = 0;  ///< that are there
  int min_nodes = 0;
  int max_nodes = 0;
  std::vector<std::string> joined = {};   ///< their names; none: more than kWaitingNamesMax
  std::vector<std::string> checked = {};  ///< those of which the check runs; at most as many
  std::vector<std::string> missing;  ///< those expected back, by name; at most kWaitingNamesMax
  std::chrono::nanoseconds left{0};  ///< until a round forms with those there, or the job ends
  bool is_spare = false;  ///< a round runs without this node, which waits for another one
  /// For which the last round ended; empty: it is no news. A spare's: why it cannot have the node
  /// rank that it insists on; empty: it insists on none.
  std::string reason = {};
  /// The round forms only then because workers of an earlier service may still run: those of
  /// missing nodes, or, if no node is missing, those of nodes that were there before.
  bool for_past_workers = false;
};
inline constexpr std::size_t kWaitingNamesMax = 8;
/// Run the command that tells whether this node is sound, then send Checked.
struct Check {
  std::uint64_t number = 0;  ///< comes again where the first one may not have arrived
};
/// For the user of the node; it changes nothing.
struct Remark {
  std::string text;
};
/// End the workers of the round, then send Stopped and, unless `final`, Join again.
struct Stop {
  RoundNumber round = 0;
  std::string reason;
  bool final = false;
  /// By SIGKILL, without a grace period: they may not write anything any more.
  bool kill = false;
  bool may_save = false;  ///< nothing has failed: they may save their state first
  /// Workers that can take part in another round are interrupted and kept, not ended.
  bool keep = false;
};
/// A worker that neither failed nor ended while all that failed had timed out waiting, or while a
/// signal held it.
struct Suspect {
  AgentId agent;
  int rank = -1;
  RunningWorker worker;
  std::string node = {};  ///< as FailedWorker's
};
/// A worker that had ended with exit code 0 before those failed that waited for it.
struct EarlyEnd {
  AgentId agent;
  int rank = -1;
  EndedWorker worker;
  std::string node = {};  ///< as FailedWorker's
};
/// Other workers may have failed before the culprit, by so much as clocks of nodes may differ.
struct CloseCall {
  int rank = -1;                       ///< of one of them, on another node
  int more = 0;                        ///< besides it
  std::chrono::nanoseconds within{0};  ///< of the culprit's time and theirs together
  bool by_kind = false;                ///< the stronger evidence decided, and not the lower rank
};
/// Which worker failed a round, after all that is known of it.
struct Verdict {
  FailedWorker culprit;
  std::vector<FailedWorker> victims;  ///< those that failed because of it, by rank
  std::vector<FailedWorker> alike;    ///< those that failed by themselves as it did, by rank
  std::vector<Suspect> suspects;      ///< those of which one may hang, by rank
  std::optional<CloseCall> close_call = std::nullopt;
  std::vector<EarlyEnd> ended = {};  ///< those that were probably waited for, by rank
  /// How the workers of the culprit's node were started; none: that node does not tell.
  std::optional<ProgramFacts> program = std::nullopt;
};
/// A node that had a part in the last round.
struct NodeOfRound {
  std::string name;
  int group_rank = 0;
  int first_rank = 0;
  int workers = 0;
};
/// A node that the job did without, in all of its rounds or in some, though it was there.
struct UnsoundNode {
  std::string node;
  std::string reason;
  int times = 1;  ///< of nodes of this name; the reason is the newest
};
/// The job is over, on all nodes.
struct Finished {
  enum class Outcome { succeeded, failed, cancelled } outcome = Outcome::succeeded;
  std::string reason;
  std::optional<Verdict> verdict;  ///< of the last round, where a worker failed it
  std::string no_restart;  ///< failed: why it was not tried again; empty: no restart was asked for
  int signal = 0;          ///< cancelled: the signal that asked for it
  int restart_count = 0;
  int max_restarts = 0;
  /// The node that reports a failure in full; empty: this one does.
  std::string report_at = {};
  std::optional<LostNode> lost_node = std::nullopt;  ///< failed: because it was lost
  /// The job's exit code, where this message does not have all that it follows from.
  std::optional<int> exit_code = std::nullopt;
  bool has_leftovers = false;  ///< processes could not be killed, on one of the nodes
  Losses losses = {};          ///< of the other nodes, for the one that reports
  /// By group rank, for the one that reports. Fewer where they do not fit into a frame.
  std::vector<NodeOfRound> nodes = {};
  std::vector<UnsoundNode> unsound = {};  ///< in this epoch, for the one that reports
};
using MembershipMessage =
    std::variant<Round, RestartPlanned, Waiting, Check, Remark, Stop, Finished>;

/// How a node's part ends that leaves; and the job, if it was the last.
inline Finished outcome_of(const Leave& leave) {
  Finished finished;
  finished.outcome = leave.signal != 0 ? Finished::Outcome::cancelled : Finished::Outcome::failed;
  finished.reason = leave.signal != 0 ? "stopped by " + signal_name(leave.signal) : leave.error;
  finished.signal = leave.signal;
  return finished;
}

}  // namespace ddprun::proto
