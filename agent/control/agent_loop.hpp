// The control thread of the agent process: the shell around NodeMachine. It turns what comes in
// from all sides into events and obeys the actions; it decides nothing. Internal to agent/control:
// agent_loop.cpp has the loop, round_begin.cpp how a round starts, worker_ends.cpp signals to
// workers and their exits, chaos_strikes.cpp faults on purpose, round_end.cpp what is left and
// reported of a round, job_end.cpp the end.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/agent.hpp"
#include "agent/control/chaos_strikes.hpp"
#include "agent/control/deadline_timer.hpp"
#include "agent/control/descendants.hpp"
#include "agent/control/gpu_wait.hpp"
#include "agent/control/job_output.hpp"
#include "agent/control/job_signals.hpp"
#include "agent/control/job_socket.hpp"
#include "agent/control/membership_link.hpp"
#include "agent/control/node_link.hpp"
#include "agent/control/node_machine.hpp"
#include "agent/control/preflight.hpp"
#include "agent/control/round_failures.hpp"
#include "agent/control/round_store.hpp"
#include "agent/control/shared_memory_cleanup.hpp"
#include "agent/control/worker_watches.hpp"
#include "agent/workers/open_files.hpp"
#include "agent/workers/worker_starter.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

inline constexpr auto kReadable = asio::posix::descriptor_base::wait_read;

/// What a round holds of the system, made and destroyed as a whole.
struct RoundHandles {
  std::chrono::system_clock::time_point wall_started_at = std::chrono::system_clock::now();
  // The pidfds, by local rank; empty where the kernel has none or the worker has ended.
  std::vector<std::optional<asio::posix::stream_descriptor>> exits;
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

class Agent {
 public:
  Agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
        std::optional<machine::Ancestor> scheduler);

  const AgentResult& run();
  /// After it: until the other nodes know how the job ended (NodeLink::linger).
  void linger();

 private:
  // Events.
  void handle(NodeEvent event);
  void on_signal(const warden::SignalRecord& record);
  bool waits_for_front(int signal);
  void on_scheduler_end();
  void on_child();
  void on_worker_exit(std::size_t local_rank);
  void reap_strangers();
  void hear(proto::MembershipMessage message);
  [[noreturn]] void die_with_warden();

  // Actions.
  void obey(const Prepare& action);
  void obey(const RunCheck& action);
  void obey(const StopCheck& action);
  void obey(const AwaitGpus& action);
  void obey(Send& action);
  void obey(const Notice& action);
  void obey(const StartWorkers& action);
  void obey(const SignalWorkers& action);
  void obey(const StopWorkers& action);
  void obey(const StopWatching& action);
  void obey(const LookAtSuspects& action);
  void obey(const LookForLeftovers& action);
  void obey(const TerminateLeftovers& action);
  void obey(const KillLeftovers& action);
  void obey(const ReportRound& action);
  void obey(const EndWithin& action);
  void obey(const NameStuck& action);
  void obey(const PauseJob& action);
  void obey(const ResumeJob& action);
  void obey(EndJob& action);

  std::unique_ptr<MembershipLink> make_membership();
  [[nodiscard]] NodeLink::Events link_events();
  StartedWorker start_worker(int local_rank, std::vector<OutputSource>& sources);
  void signal_workers(int signal);
  void write_stop_reasons(StopReason reason) const;
  void kill_for_the_fence();
  proto::Stopped gather_evidence();
  [[nodiscard]] std::chrono::milliseconds end_limit() const;
  void end_check(CheckEnded ended);
  void notice(const std::string& line) { output_.notice(line); }
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const;

  const AgentConfig& config_;
  warden::WardenLink link_;
  std::optional<machine::Ancestor> scheduler_;
  asio::io_context context_{1};
  JobOutput output_;
  NodeMachine machine_;
  std::deque<NodeEvent> events_;  // the first is being handled
  DeadlineTimer timer_;           // of the machine
  NodeLink* nodes_ = nullptr;     // membership_ is it; null: this node is the only one
  const std::unique_ptr<MembershipLink> membership_;

  WorkerStarter starter_;
  JobSignals signals_;
  std::optional<GpuWait> gpu_wait_;     // none: no GPUs are claimed
  std::optional<Preflight> preflight_;  // none: this node takes part without a check
  std::optional<JobSocket> socket_;
  std::optional<ChaosStrikes> chaos_;  // none: nothing is broken on purpose

  OpenFiles open_files_;
  RoundStore store_;
  std::optional<RoundHandles> handles_;  // of the machine's round
  Descendants descendants_;
  WorkerWatches watches_;
  SharedMemoryCleanup shared_memory_;

  const JobStart start_;
  AgentResult result_;
};

}  // namespace ddprun::agent
