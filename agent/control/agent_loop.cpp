#include "agent/control/agent_loop.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "agent/link/membership_link.hpp"
#include "agent/progress/thread_states.hpp"
#include "agent/terminal/terminal_size.hpp"
#include "base/no_descriptor.hpp"
#include "base/overloaded.hpp"
#include "base/printable.hpp"
#include "base/signals.hpp"

namespace ddprun::agent {

namespace {

// For what a check has left; keep-alives wait meanwhile.
constexpr std::chrono::milliseconds kCheckKillLimit{400};

std::vector<int> wanted_signals(const AgentConfig& config) {
  std::vector<int> signals = config.stop.signals;
  signals.insert(signals.end(), config.stop.forward_signals.begin(),
                 config.stop.forward_signals.end());
  return signals;
}

/// Also those that wait for a round.
void signal_all(const std::vector<WorkerRecord>& workers, int signal) {
  for (const WorkerRecord& worker : workers)
    if (worker.running()) kill(-worker.pid, signal);
}

/// Whether one would take what is typed for the shell: after Ctrl-Z and `bg`.
bool waits_for_terminal(const AgentConfig& config, const std::vector<WorkerRecord>& workers) {
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (gets_stdin(config.streams.standard_input, static_cast<int>(i)) && workers[i].running() &&
        waits_for_stdin(workers[i].pid))
      return true;
  }
  return false;
}

}  // namespace

NodeDriver::NodeDriver(asio::io_context& context, const AgentConfig& config,
                       std::function<void(const NodeEvent&)> seen,
                       std::function<void(NodeAction&)> obey, std::function<void()> settled)
    : seen_(std::move(seen)),
      obey_(std::move(obey)),
      settled_(std::move(settled)),
      machine_(config),
      timer_(context, [this] { handle(TimePassed{}); }) {}

void NodeDriver::handle(NodeEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() > 1) return;
  for (; !events_.empty(); events_.pop_front()) {
    seen_(events_.front());
    for (NodeAction& action : machine_.on(std::move(events_.front()), Clock::now())) obey_(action);
  }
  timer_.follow(machine_.deadline());
  settled_();
}

Agent::Agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
             std::optional<machine::Ancestor> scheduler)
    : config_(config),
      link_(std::move(link)),
      output_(context_, config,
              {[this](const std::string& why) {
                 handle(CannotGoOn{"the workers' output cannot be read: " + why});
               },
               [this](const std::string& line) {
                 local_.note(LinePrinted{line}, machine(), start_.wall_time_of(Clock::now()));
               },
               [this] {
                 if (local_.socket) local_.socket->on_news();
               }}),
      node_(
          context_, config,
          [this](const NodeEvent& event) {
            local_.note(event, machine(), start_.wall_time_of(Clock::now()));
          },
          [this](NodeAction& action) { obey(action); },
          [this] {
            local_.follow(config_, machine());
            if (chaos_) chaos_->follow();
          }),
      membership_(make_membership()),
      launch_(context_, config, user, link_.cgroup() != nullptr ? link_.cgroup()->folder_fd() : -1,
              [this](const std::string& line) { output_.notice(line); }),
      signals_(context_, wanted_signals(config), std::move(scheduler),
               {[this](const warden::SignalRecord& record) { on_signal(record); },
                [this] { on_child(); }, [this] { die_with_warden(); },
                [this](const machine::Ancestor& ended) { on_scheduler_end(ended); }}),
      local_{{machine(), [this](NodeEvent event) { handle(std::move(event)); }},
             {context_,
              config,
              user,
              machine(),
              {[this](const std::string& line) { output_.notice(line); },
               [this](int signal, std::chrono::nanoseconds later) {
                 output_.stop_waiting();
                 launch_.hurry();
                 handle(JobSignal{signal, std::chrono::nanoseconds(monotonic_ns()) + later, true});
               },
               [this](const SaveOutcome& outcome) {
                 local_.note(SaveEnded{outcome.workers, outcome.problem, outcome.took}, machine(),
                             start_.wall_time_of(Clock::now()));
               },
               [this] {
                 const bool can_ask = membership_->can_ask_restart();
                 if (can_ask) send(proto::AskRestart{});
                 return can_ask;
               },
               [this](proto::RoundNumber start, int local_rank) {
                 return output_.recent()->last_line({start, local_rank});
               },
               [this] { return local_.ledger_entries(config_, machine(), Clock::now()); },
               [this] { return watches_.slow(); }}},
             Ledger(start_.at)},
      store_(context_, config, open_files_, nodes_,
             [this](const std::string& problem) {
               handle(CannotGoOn{"the workers have no store: " + problem});
             }),
      descendants_(context_, link_.cgroup(),
                   {[this](const std::string& line) { output_.notice(line); },
                    [this](pid_t pid) {
                      if (launch_.child_ended(pid)) return;
                      shared_memory_.note_end(pid);
                      local_.workers.note_reaped(pid);
                      local_.commands.note_reaped(pid);
                    },
                    [this] {
                      return machine::KeptProcesses{launch_.importer(), local_.workers.sessions(),
                                                    local_.commands.sessions()};
                    }}),
      watches_(context_, config, user, machine(), descendants_,
               {[this](const std::string& line) { output_.notice(line); },
                [this](FoundHang found) { handle(std::move(found)); },
                [this] { handle(SuspectsSeen{}); },
                [this](const WorkerSlow& slow) {
                  local_.note(slow, machine(), start_.wall_time_of(Clock::now()));
                }}) {
  if (config.checks.preflight)
    checks_.preflight.emplace(
        context_, user, *config.checks.preflight,
        Preflight::Events{[this](const std::string& line) { output_.say(line); },
                          [this](CheckEnded ended) {
                            // No worker runs here yet: all that is left is the check's.
                            if (descendants_.any()) descendants_.kill_silently(kCheckKillLimit);
                            handle(std::move(ended));
                          }});
  if (!config.checks.claimed_gpus.empty())
    checks_.gpu_wait.emplace(
        context_, user, config.checks.claimed_gpus,
        GpuWait::Events{[this](const std::string& line) { output_.notice(line); },
                        [this] { handle(GpusAwaited{}); }});
  local_.commands.add(
      context_, user, config, local_.events,
      {[this](const std::string& text) {
         local_.note(NoticeCame{text}, machine(), start_.wall_time_of(Clock::now()));
       },
       [this](const std::string& text) {
         if (!local_.answers.can_save()) return false;
         local_.answers.save_unasked("a notice has come (--on-notice), and asks for a checkpoint" +
                                     (text.empty() ? "" : ": " + printable(text)));
         return true;
       },
       [this](const std::string& line) { output_.notice(line); }});
  if (config.chaos)
    chaos_.emplace(
        context_, *config.chaos, machine(), nodes_,
        ChaosStrikes::Events{[this](const std::string& line) { output_.notice(line); },
                             [this](const std::string& problem) { handle(CannotGoOn{problem}); }});
}

std::unique_ptr<MembershipLink> Agent::make_membership() {
  if (!config_.rendezvous)
    return std::make_unique<LocalMembership>(
        context_, config_.job,
        [this](proto::MembershipMessage message) { on_message(std::move(message)); });
  auto nodes = std::make_unique<NodeLink>(context_, config_, link_, link_events());
  nodes_ = nodes.get();
  return nodes;
}

NodeLink::Events Agent::link_events() {
  NodeLink::Events events;
  events.message = [this](proto::MembershipMessage message) { on_message(std::move(message)); };
  events.notice = [this](const std::string& line) { output_.notice(line); };
  events.ready = [this] { prepare(); };
  events.failed = [this](const std::string& problem) {
    handle(Prepared{"", 0, 0, false, problem});
  };
  events.has_workers = [this] { return machine().may_have_workers(); };
  events.add_to_environment = [this](const std::string& name, const std::string& value) {
    launch_.add_to_environment(name, value);
  };
  events.store_is_wanted = [this] { store_.hand_over_clients(); };
  return events;
}

const AgentResult& Agent::run() {
  // For the store's clients and the workers' streams; workers get the user's own limit back.
  open_files_ = open_files_for(config_, raise_open_files_limit());
  output_.take_log();
  if (const ErrorCode failed = signals_.start(link_); failed && open_files_.problem.empty())
    open_files_.problem = "ddprun cannot wait for signals: " + why_no_descriptor(failed);
  local_.open(context_, config_, machine(), output_.recent(),
              [this](const std::string& line) { output_.notice(line); });
  watches_.start();
  launch_.begin();
  if (nodes_ != nullptr) {
    nodes_->start(connection_shares(config_, open_files_));
  } else {
    prepare();
  }
  // Behind the first round: its workers come first.
  asio::post(context_, [this] { local_.start(); });
  context_.run();
  return result_;
}

void Agent::on_message(proto::MembershipMessage message) {
  std::visit([this](auto& specific) { handle(std::move(specific)); }, message);
}

void Agent::on_signal(const warden::SignalRecord& record) {
  const auto& forward = config_.stop.forward_signals;
  if (record.signal == SIGWINCH) output_.resize();  // before the workers look
  if (machine().state() == NodeState::over) {
    local_.is_in_a_hurry = true;  // for what is left to be told
  } else if (record.signal == config_.stop.save_signal) {
    local_.answers.save_unasked("SIGUSR2 asks for a checkpoint");
  } else if (record.signal == SIGWINCH ||
             std::find(forward.begin(), forward.end(), record.signal) != forward.end()) {
    signal_all(workers(), record.signal);
  } else if (output_.waits_for_reader()) {
    if (record.signal == SIGTSTP) {
      link_.workers_paused();
    } else if (record.signal != SIGCONT) {
      output_.stop_waiting();
    }
  } else if (record.signal == SIGCONT && machine().paused() && in_background(STDIN_FILENO) &&
             waits_for_terminal(config_, workers())) {
    link_.reads_terminal();
  } else {
    const int signal = record.signal == SIGTTIN ? SIGCONT : record.signal;
    if (signal != SIGTSTP && signal != SIGCONT) launch_.hurry();
    handle(JobSignal{signal, std::chrono::nanoseconds(record.monotonic_ns)});
  }
}

/// It gave us our place and would have ended us: from here on the node may be given to others.
void Agent::on_scheduler_end(const machine::Ancestor& scheduler) {
  output_.notice(
      fmt::format("{} (pid {}), which has started ddprun here, is gone, and with it whatever "
                  "could end this job",
                  scheduler.name, scheduler.pid));
  output_.stop_waiting();
  handle(JobSignal{SIGTERM, std::chrono::nanoseconds(monotonic_ns())});
}

/// The shell as a table: which part does what the machine asks for.
void Agent::obey(NodeAction& any) {
  const Overloaded table{
      [this](const Prepare&) { prepare(); },
      [this](const RunCheck&) { checks_.preflight->start(); },
      [this](const StopCheck&) { checks_.preflight->stop(); },
      [this](const AwaitGpus&) { checks_.gpu_wait->start(); },
      [this](Send& action) { send(std::move(action.message)); },
      [this](const Notice& action) { output_.notice(action.line); },
      [this](const StartWorkers& action) { start_workers(action); },
      [this](const SignalWorkers& action) { signal_workers(action.signal); },
      [this](const StopWorkers& action) { stop_workers(action); },
      [this](const StopWatching&) {
        watches_.end_round();
        local_.answers.stop();
      },
      [this](const LookAtSuspects& action) { watches_.look_at_suspects(action.local_rank); },
      [this](const LookForLeftovers&) {
        watches_.stop();  // a helper of ours is nothing that workers left
        local_.answers.stop();
        reap_strangers();
        handle(LeftoversSeen{descendants_.any()});
      },
      [this](const TerminateLeftovers& action) {
        descendants_.terminate(action.patience, [this] { return machine().waits_for_leftovers(); });
      },
      [this](const KillLeftovers& action) {
        descendants_.kill(machine().round()->round.number, action.limit,
                          [this] { handle(LeftoversSeen{!descendants_.unkillable().empty()}); });
      },
      [this](const ReadOutput&) {
        end_round();
        output_.when_ended(local_.workers.streams(), [this] { handle(OutputRead{}); });
      },
      [this](const ReportRound&) { report_round(); },
      [this](const EndWithin& action) { link_.ends_within(action.limit); },
      [this](const NameStuck& action) { descendants_.name_stuck(action.left); },
      [this](const PauseJob&) { pause(); },
      [this](const ResumeJob& action) { resume(action); },
      [this](EndJob& action) { end_job(action); },
  };
  local_.follow(config_, machine());  // before what its workers say is gone
  std::visit(table, any);
}

void Agent::send(proto::AgentMessage message) {
  if (auto* done = std::get_if<proto::WorkersDone>(&message)) {
    link_.lease(std::nullopt);
    done->losses = {output_.dropped_bytes(), descendants_.unkillable()};
  }
  if (std::holds_alternative<proto::WorkerFailed>(message))
    return membership_->send(std::move(message), machine().round()->started_at);
  membership_->send(std::move(message));
}

/// The workers first; the warden, which the shell looks at, when they are.
void Agent::pause() {
  signal_all(workers(), SIGSTOP);
  watches_.pause();
  output_.pause();
  link_.workers_paused();
}

void Agent::resume(const ResumeJob& action) {
  if (action.workers) signal_all(workers(), SIGCONT);
  watches_.resume();
  output_.resume();
}

namespace {

/// There is nothing to clean up, and no thread listens to the earlier signal.
void end_with_warden_from_now_on(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char nothing = 0;
  if (recv(socket, &nothing, 1, MSG_PEEK | MSG_DONTWAIT) == 0) _exit(128 + SIGKILL);
}

}  // namespace

/// The other nodes are served meanwhile.
void Agent::linger(int exit_code) {
  link_.ends_within(LocalConnections::kEndLimit + end_limit(config_));
  // A command has processes, which do not end with us.
  prctl(PR_SET_PDEATHSIG, warden::warden_died_signal());
  local_.end(context_, config_, exit_code);
  end_with_warden_from_now_on(link_.socket());
  if (nodes_ != nullptr) nodes_->linger();
}

void run_agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
               std::optional<machine::Ancestor> scheduler,
               const std::function<int(const AgentResult&)>& conclude) {
  const int socket = link.socket();
  Agent agent(config, user, std::move(link), std::move(scheduler));
  const AgentResult& result = agent.run();
  end_with_warden_from_now_on(socket);
  const int code = conclude(result);
  agent.linger(code);
  std::fflush(nullptr);
  // Not through the destructors: the kernel ends threads and closes descriptors faster than we join
  // them, and the static objects are the warden's copies.
  _exit(code);
}

}  // namespace ddprun::agent
