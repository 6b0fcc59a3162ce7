// The control thread of the agent process: the shell around NodeMachine. It turns what comes in
// from all sides into events and obeys the actions; it decides nothing. Internal to agent/control:
// agent_loop.cpp has the loop, round_workers.cpp the workers of a round, round_end.cpp what is
// reported of it, job_end.cpp the end.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/agent.hpp"
#include "agent/control/chaos_strikes.hpp"
#include "agent/control/descendants.hpp"
#include "agent/control/job_output.hpp"
#include "agent/control/job_signals.hpp"
#include "agent/control/local_connections.hpp"
#include "agent/control/node_checks.hpp"
#include "agent/control/round_failures.hpp"
#include "agent/control/worker_launch.hpp"
#include "agent/control/worker_watches.hpp"
#include "agent/events/event_log.hpp"
#include "agent/link/deadline_timer.hpp"
#include "agent/link/membership_link.hpp"
#include "agent/link/node_link.hpp"
#include "agent/link/round_store.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/workers/open_files.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

inline constexpr auto kReadable = asio::posix::descriptor_base::wait_read;

/// What a round holds of the system, made and destroyed as a whole.
struct RoundHandles {
  std::chrono::system_clock::time_point wall_started_at = std::chrono::system_clock::now();
  // The pidfds, by local rank; empty where the kernel has none or the worker has ended.
  std::vector<std::optional<asio::posix::stream_descriptor>> exits;
  // In the order in which they came. A worker is not reaped before its exit is reported.
  struct SeenExit {
    std::size_t local_rank;
    Clock::time_point at;
    bool has_failed;
    bool is_read;  // what it wrote
  };
  std::deque<SeenExit> seen_exits;

  /// Takes what the round before holds for a worker that goes on.
  void take_over(RoundHandles& before, std::size_t local_rank);
  /// `ended` is called once when the worker has ended. Without a pidfd, or where it can't be
  /// watched, SIGCHLD tells.
  void watch(asio::io_context& context, std::size_t local_rank, UniqueFd pidfd,
             std::function<void()> ended);
};

/// Gives the node's machine its events one after the other, and its actions to the shell.
class NodeDriver {
 public:
  /// `seen` is told of each event before the machine is. `obey` may cause further events.
  /// `settled`: they, too, have been handled.
  NodeDriver(asio::io_context& context, const AgentConfig& config,
             std::function<void(const NodeEvent&)> seen, std::function<void(NodeAction&)> obey,
             std::function<void()> settled);

  /// An event that an action causes waits until all actions of this one are done.
  void handle(NodeEvent event);
  [[nodiscard]] const NodeMachine& machine() const { return machine_; }

 private:
  const std::function<void(const NodeEvent&)> seen_;
  const std::function<void(NodeAction&)> obey_;
  const std::function<void()> settled_;
  NodeMachine machine_;
  std::deque<NodeEvent> events_;  // the first is being handled
  DeadlineTimer timer_;
};

/// When the job began.
struct JobStart {
  /// Counted from there, so that a wall clock that is set back moves nothing.
  [[nodiscard]] std::chrono::system_clock::time_point wall_time_of(Clock::time_point then) const {
    return wall + std::chrono::duration_cast<std::chrono::system_clock::duration>(then - at);
  }

  Clock::time_point at = Clock::now();
  std::chrono::system_clock::time_point wall = std::chrono::system_clock::now();
};

/// Adds the round, which is over, to those of the report.
void add_summary(AgentResult& result, const NodeRound& round, const JobStart& start);

/// What the end of a job may take, after which the warden ends us, unless it is told again that
/// there is still something to do.
std::chrono::milliseconds end_limit(const AgentConfig& config);

class Agent {
 public:
  Agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
        std::optional<machine::Ancestor> scheduler);

  const AgentResult& run();
  /// After it: tells those that wait for the end, and runs until the other nodes know how the job
  /// ended (NodeLink::linger).
  void linger(int exit_code);

 private:
  // Events.
  void handle(NodeEvent event) { node_.handle(std::move(event)); }
  void on_message(proto::MembershipMessage message);
  void on_signal(const warden::SignalRecord& record);
  void on_scheduler_end(const machine::Ancestor& scheduler);
  void on_child();
  void on_worker_exit(std::size_t local_rank);
  void report_exits();
  void report_exit(const RoundHandles::SeenExit& seen);
  void reap_strangers();
  [[noreturn]] void die_with_warden();

  // Actions.
  void obey(NodeAction& any);
  void prepare();
  void send(proto::AgentMessage message);
  void start_workers(const StartWorkers& action);
  /// `problem`: why none of `local_ranks` was launched; empty: `launched` has all.
  void take_workers(const std::vector<int>& local_ranks, std::vector<LaunchedWorker> launched,
                    const std::string& problem = "");
  void signal_workers(int signal);
  void stop_workers(const StopWorkers& action);
  void pause();
  void resume(const ResumeJob& action);
  /// No worker is left: what served them ends, once, before anything is waited for.
  void end_round();
  void report_round();
  proto::Stopped gather_evidence();
  void end_job(EndJob& action);

  std::unique_ptr<MembershipLink> make_membership();
  [[nodiscard]] NodeLink::Events link_events();
  [[nodiscard]] const NodeMachine& machine() const { return node_.machine(); }
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const { return machine().workers(); }

  const AgentConfig& config_;
  warden::WardenLink link_;
  asio::io_context context_{1};
  const JobStart start_;
  JobOutput output_;
  NodeDriver node_;
  NodeLink* nodes_ = nullptr;  // membership_ is it; null: this node is the only one
  const std::unique_ptr<MembershipLink> membership_;

  WorkerLaunch launch_;
  JobSignals signals_;
  NodeChecks checks_;
  LocalConnections local_;
  std::optional<ChaosStrikes> chaos_;  // none: nothing is broken on purpose

  OpenFiles open_files_;
  RoundStore store_;
  std::optional<RoundHandles> handles_;  // of the machine's round
  Descendants descendants_;
  WorkerWatches watches_;
  SharedMemoryCleanup shared_memory_;

  AgentResult result_;
};

}  // namespace ddprun::agent
