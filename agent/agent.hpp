// One node's agent: takes part in rounds, starts their workers, watches them and stops them. It
// decides nothing about restarting: the membership core does, to which it speaks in the messages of
// proto/membership_messages.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/chaos/chaos.hpp"
#include "agent/config.hpp"
#include "agent/events/ledger.hpp"
#include "agent/workers/worker_group.hpp"
#include "machine/processes/process_tree.hpp"
#include "machine/processes/spawn.hpp"
#include "proto/membership_messages.hpp"
#include "warden/warden_link.hpp"

namespace ddprun::agent {

/// One round of the job on this node, for the report.
struct RoundSummary {
  proto::RoundNumber number = 0;
  int restart_count = 0;
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds lasted{0};
  std::string end;  ///< why it ended
  /// Where a worker failed it; without last lines and stacks.
  std::optional<proto::FailedWorker> culprit = std::nullopt;
  /// Where it failed and its workers said theirs.
  std::optional<std::uint64_t> furthest_step = std::nullopt;
  int kept_workers = 0;  ///< that went on in it from the round before
};

/// The log files of one worker; empty: the stream has none.
struct WorkerLogs {
  std::string standard_output;
  std::string standard_error;
};

/// The job's last round on this node.
struct LastRound {
  proto::RoundNumber number = 0;
  std::chrono::system_clock::time_point started;
  /// What the rounds before it may have done in vain, on this node: all of those before the last
  /// one that began anew, and the time between those in which workers went on.
  std::chrono::nanoseconds lost_at_most{0};
  bool repeats_steps = false;  ///< workers went on since then, and repeat what was interrupted
  int first_rank = 0;          ///< of this node
  int nodes = 1;
  int world_size = 0;                 ///< 0: there was no round
  std::string store_addr;             ///< of its workers
  std::uint16_t store_port = 0;       ///< of its workers
  bool newer_store_clients = false;   ///< one asked the store for what only a newer PyTorch has
  std::vector<WorkerRecord> workers;  ///< empty when none was started
  std::vector<WorkerLogs> logs;       ///< by local rank; empty: no log files
};

/// What the user has seen of the worker that failed the job.
struct CulpritOutput {
  bool is_here = true;  ///< and not on another node
  /// Its log file, with something in it: of its stderr, else of its stdout. Empty: none is known,
  /// or it is on another node.
  std::string log;
  bool output_seen = false;   ///< false: its stderr was our own, so there are no lines
  bool output_above = false;  ///< its stderr was ours, where the report goes, too
  /// Its last lines are right above the report, which leaves them out.
  bool last_lines_seen = false;
};

/// What became of our output.
struct OutputEnd {
  std::uint64_t dropped_bytes = 0;
  int refusal = 0;        ///< the errno with which our stdout or stderr refused bytes
  std::string full_disk;  ///< not empty: the log folder, which `has no space left` after a failure
  /// Our output ends within a line of a worker; none: workers write there themselves.
  std::optional<bool> stdout_unfinished;
  std::optional<bool> stderr_unfinished;
};

/// How the job ended, for the report.
struct AgentResult {
  proto::Finished finished;
  std::chrono::system_clock::time_point job_started;
  std::chrono::nanoseconds job_lasted{0};
  LedgerEntries ledger;  ///< of all of it
  std::string node_name;
  machine::ContainmentLevel containment = machine::ContainmentLevel::tree;
  LastRound last_round;
  CulpritOutput culprit;
  OutputEnd output;
  std::vector<RoundSummary> rounds;  ///< in order; of very many the first and the last ones
  int rounds_left_out = 0;           ///< between them
  /// The error files' contents of the last failed round, by local rank; only where they are to be
  /// kept.
  std::map<int, std::string> error_files;
  std::vector<std::string> leftovers;  ///< processes that could not be killed, and why
  std::optional<ChaosSummary> chaos;   ///< none: nothing was broken on purpose
};

/// Runs the job of one node (the one-member membership included) until it is over and nothing of it
/// is left; everything that workers printed has been written, or given up after a deadline. Then
/// `conclude` prints the report and returns the exit code, with which the process ends. Called
/// once, in the agent process, with all signals blocked and no other thread. When the warden dies
/// it kills everything and ends the process. When `scheduler` ends, by which a cluster has started
/// us, nobody could end the job any more: that is a SIGTERM, too.
[[noreturn]] void run_agent(const AgentConfig& config, const machine::UserState& user,
                            warden::WardenLink link, std::optional<machine::Ancestor> scheduler,
                            const std::function<int(const AgentResult&)>& conclude);

}  // namespace ddprun::agent
