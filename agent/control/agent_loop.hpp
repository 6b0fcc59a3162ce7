// The control thread of the agent process: one job, its rounds, and what comes in from all sides.
// Internal to agent/control: agent_loop.cpp has the events and the membership side, round_begin.cpp
// what happens to a round.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/agent.hpp"
#include "agent/control/job_signals.hpp"
#include "agent/control/job_socket.hpp"
#include "agent/control/leftovers.hpp"
#include "agent/control/local_membership.hpp"
#include "agent/control/round_failures.hpp"
#include "agent/progress/round_watch.hpp"
#include "agent/progress/suspect_watch.hpp"
#include "agent/progress/timer_file.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/workers/open_files.hpp"
#include "agent/workers/worker_group.hpp"
#include "agent/workers/worker_starter.hpp"
#include "machine/processes/kill_children.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

/// For the last lines to reach a slow reader.
inline constexpr std::chrono::seconds kOutputLimit{2};

inline constexpr auto kReadable = asio::posix::descriptor_base::wait_read;

/// One round on this node: made and destroyed as a whole.
struct RoundState {
  RoundState(proto::Round numbers, WorkerGroup workers)
      : round(std::move(numbers)), group(std::move(workers)) {}

  proto::Round round;
  WorkerGroup group;
  Clock::time_point started_at = Clock::now();
  std::chrono::system_clock::time_point wall_started_at = std::chrono::system_clock::now();
  // The store's thread starts with its first client: programs that need no store get none.
  std::optional<asio::posix::stream_descriptor> listening;
  std::optional<rdzv::StoreServer> store;
  // The pidfds, by local rank; empty where the kernel has none or the worker has ended.
  std::vector<std::optional<asio::posix::stream_descriptor>> exits;
  std::optional<proto::Stop> stop;                 // told to end
  std::optional<Clock::time_point> stopped_at;     // then
  std::optional<Clock::time_point> patience_ends;  // of a stop that the user asked for
  std::optional<FoundHang> hang;                   // for which we asked for its end
  Leftovers leftovers;
  std::optional<Clock::time_point> kill_deadline;  // of all that was sent SIGKILL
  bool reported = false;                           // to the membership core, after a stop
};

class Agent {
 public:
  Agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link)
      : config_(config),
        link_(std::move(link)),
        membership_(std::make_unique<LocalMembership>(
            context_, settings(config),
            [this](proto::MembershipMessage message) {
              std::visit([this](auto& specific) { handle(specific); }, message);
            })),
        starter_(config, user, link_.cgroup() != nullptr ? link_.cgroup()->folder_fd() : -1),
        signals_(context_, wanted_signals(config),
                 {[this](const warden::SignalRecord& record) { on_signal(record); },
                  [this] {
                    reap_strangers();
                    look_for_leftovers();
                  },
                  [this] { die_with_warden(); }}),
        watch_(context_, config, user,
               {[this](const std::string& line) { notice(line); },
                [this](FoundHang found) { on_hang(std::move(found)); }}),
        suspects_(
            context_, config, user,
            {[this](const std::string& line) { notice(line); }, [this] { report_time_outs(); }}),
        grace_timer_(context_),
        leftovers_timer_(context_),
        countdown_timer_(context_),
        memory_timer_(context_) {}

  const AgentResult& run();

 private:
  static rdzv::MembershipSettings settings(const AgentConfig& config) {
    rdzv::MembershipSettings settings;
    settings.restart = config.restart;
    return settings;
  }

  static std::vector<int> wanted_signals(const AgentConfig& config) {
    std::vector<int> signals = config.stop_signals;
    signals.insert(signals.end(), config.forward_signals.begin(), config.forward_signals.end());
    return signals;
  }

  // Events.
  void on_signal(const warden::SignalRecord& record);
  void on_worker_exit(std::size_t local_rank);
  void on_hang(FoundHang found);
  void watch_timers();
  void on_timer(const ExpiredTimer& timer);
  void reap_strangers();
  [[noreturn]] void die_with_warden();

  // Towards the membership core and back.
  void say(proto::AgentMessage message) { membership_->send(std::move(message)); }
  void handle(proto::Round& round);
  void handle(proto::RestartPlanned& planned);
  void handle(proto::Stop& stop);
  void handle(proto::Finished& finished);

  void prepare_meeting_point();
  bool prepare_output();
  void join();
  void offer_store(RoundState& state);
  void start_worker(RoundState& state, int local_rank, std::vector<OutputSource>& sources);
  void note_the_helpless(RoundState& state);
  void resume_suspended();
  void apply(const GroupActions& actions);
  void tell_failure(int local_rank);
  bool keep_back(proto::WorkerFailed& failure);
  void report_time_outs();
  void signal_workers(int signal);
  // The end of a round, in this order (round_end.cpp): its workers have ended, what they left is
  // gone, the membership core is told.
  void clear_round();
  void look_for_leftovers();
  void take(Leftovers::Step step);
  void name_leftovers();
  void kill_leftovers();
  void round_is_clear();
  void report_round();
  std::vector<machine::ProcessEntry> kill_everything(Clock::duration limit);
  void tell_failures(proto::Stopped& stopped);
  void keep_error_files(const proto::Stopped& stopped);
  void tell_still_running(proto::Stopped& stopped, const ProgressPages& pages) const;
  void count_memory_kills();
  void count_down();
  void summarize(const RoundState& state);
  void describe_last_round(const RoundState& state);
  void notice(const std::string& line);
  std::string status() const;

  const AgentConfig& config_;
  warden::WardenLink link_;
  asio::io_context context_{1};
  const std::unique_ptr<MembershipLink> membership_;

  WorkerStarter starter_;
  JobSignals signals_;
  RoundWatch watch_;
  SuspectWatch suspects_;
  asio::steady_timer grace_timer_;
  asio::steady_timer leftovers_timer_;
  asio::steady_timer countdown_timer_;
  asio::steady_timer memory_timer_;
  std::optional<std::uint64_t> memory_kills_;  // of the kernel, when we last looked
  std::optional<JobSocket> socket_;
  std::optional<TimerFile> timers_;  // none: they are not watched

  OpenFiles open_files_;
  std::optional<std::uint16_t> meeting_port_;    // of the next round
  std::optional<rdzv::StoreListener> listener_;  // for the next round, where the store is ours
  std::optional<RoundState> round_;
  std::optional<WorkerOutput> output_;

  const Clock::time_point started_at_ = Clock::now();
  const std::chrono::system_clock::time_point wall_started_at_ = std::chrono::system_clock::now();
  std::string_view job_state_ = "forming";  // by the core's last message
  int restart_count_ = 0;                   // by the same
  int announced_restarts_ = 0;              // the user knows of so many
  int stop_signal_ = SIGTERM;               // what workers get at a stop
  std::optional<warden::SignalRecord> last_signal_;
  bool leaving_ = false;
  bool over_ = false;
  bool paused_ = false;
  AgentResult result_;
};

}  // namespace ddprun::agent
