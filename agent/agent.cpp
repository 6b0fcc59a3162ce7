#include "agent/agent.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "agent/evidence/memory_kills.hpp"
#include "agent/job_signals.hpp"
#include "agent/job_socket.hpp"
#include "agent/own_log.hpp"
#include "agent/port_reservation.hpp"
#include "agent/round_failures.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/worker_starter.hpp"
#include "proto/assert.hpp"
#include "proto/words.hpp"
#include "rendezvous/membership/membership.hpp"
#include "rendezvous/store/port_owner.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto kSameSignalWithin =
    100ms;  // one Ctrl-C may reach us twice: from the terminal and from a wrapper
constexpr auto kKillLimit = 2s;          // for SIGKILL to take effect on everything
constexpr auto kOutputLimit = 2s;        // for the last lines to reach a slow reader
constexpr auto kLastWordsLimit = 200ms;  // for what dead workers wrote to be read
constexpr auto kWardenMargin = 1s;       // what the warden waits beyond our own limits

constexpr auto kReadable = asio::posix::descriptor_base::wait_read;

const proto::AgentId kOwnId = "local";

/// One round on this node: made and destroyed as a whole.
struct RoundState {
  RoundState(proto::Round numbers, int workers, Clock::duration grace_period)
      : round(std::move(numbers)), group(workers, grace_period) {}

  proto::Round round;
  WorkerGroup group;
  Clock::time_point started_at = Clock::now();
  std::chrono::system_clock::time_point wall_started_at = std::chrono::system_clock::now();
  std::optional<std::uint64_t> memory_kills;  // counted when its workers were started
  // The store's thread starts with its first client: programs that need no store get none.
  std::optional<asio::posix::stream_descriptor> listening;
  std::optional<rdzv::StoreServer> store;
  // The pidfds, by local rank; empty where the kernel has none or the worker has ended.
  std::vector<std::optional<asio::posix::stream_descriptor>> exits;
  std::optional<proto::Stop> stop;  // told to end
  bool cleaned_up = false;
};

class Agent {
 public:
  Agent(const AgentConfig& config, const UserState& user, WardenLink link)
      : config_(config),
        link_(std::move(link)),
        membership_(settings(config), Clock::now()),
        starter_(config, user),
        signals_(context_, wanted_signals(config),
                 {[this](const SignalRecord& record) {
                    on_signal(record);
                    pump();
                  },
                  [this] {
                    reap_strangers();
                    pump();
                  },
                  [this] { die_with_warden(); }}),
        grace_timer_(context_),
        membership_timer_(context_) {}

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
  void on_signal(const SignalRecord& record);
  void on_worker_exit(std::size_t local_rank);
  void reap_strangers();
  [[noreturn]] void die_with_warden();

  // Towards the membership core and back. `say` only queues; `pump` handles what came back, one
  // message at a time.
  void say(proto::AgentMessage message);
  void pump();
  void handle(proto::Round& round);
  void handle(proto::Stop& stop);
  void handle(proto::Finished& finished);

  void prepare_meeting_point();
  void join();
  void offer_store(RoundState& state);
  void start_worker(RoundState& state, int local_rank, std::vector<OutputSource>& sources);
  void apply(GroupActions actions);
  void signal_workers(int signal);
  void end_round();
  std::vector<proto::WorkerFailure> failures();
  void summarize(const RoundState& state);
  void notice(const std::string& line);
  std::string status() const;

  const AgentConfig& config_;
  WardenLink link_;
  asio::io_context context_{1};
  rdzv::Membership membership_;
  std::deque<proto::MembershipMessage> inbox_;

  WorkerStarter starter_;
  JobSignals signals_;
  asio::steady_timer grace_timer_;
  asio::steady_timer membership_timer_;
  std::optional<JobSocket> socket_;

  std::optional<std::uint16_t> meeting_port_;    // of the next round
  std::optional<rdzv::StoreListener> listener_;  // for the next round, where the store is ours
  std::optional<RoundState> round_;
  std::optional<WorkerOutput> output_;

  int stop_signal_ = SIGTERM;  // what workers get at a stop
  std::optional<SignalRecord> last_signal_;
  bool leaving_ = false;
  bool over_ = false;
  bool paused_ = false;
  AgentResult result_;
};

const AgentResult& Agent::run() {
  // For the store's clients and the workers' streams; workers get the user's own limit back.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  log_through([this](const std::string& line) { notice(line); }, config_.log_level);
  signals_.start(link_);
  auto socket =
      JobSocket::open(context_, config_.run_id, [this](const std::string&) { return status(); });
  if (socket) {
    socket_.emplace(std::move(*socket));
  } else {
    spdlog::info("no job socket: {}", socket.error().message());
  }
  join();
  pump();
  if (socket_) socket_->start();
  context_.run();
  return result_;
}

// ---- events ----

void Agent::on_signal(const SignalRecord& record) {
  if (record.signal == SIGTSTP) {
    // Ctrl-Z: the workers first; the warden, which the shell looks at, when they are.
    signal_workers(SIGSTOP);
    paused_ = true;
    link_.workers_paused();
    return;
  }
  if (record.signal == SIGCONT) {
    if (paused_) signal_workers(SIGCONT);
    paused_ = false;
    return;
  }
  const auto& forward = config_.forward_signals;
  if (std::find(forward.begin(), forward.end(), record.signal) != forward.end()) {
    signal_workers(record.signal);
    return;
  }
  const bool repeated = last_signal_ && last_signal_->signal == record.signal &&
                        std::chrono::nanoseconds(record.monotonic_ns - last_signal_->monotonic_ns) <
                            kSameSignalWithin;
  if (repeated) return;
  const bool first = !last_signal_;
  last_signal_ = record;
  const std::string name = proto::signal_name(record.signal);
  if (first) {
    leaving_ = true;
    stop_signal_ = record.signal;
    if (round_ && !round_->group.ended()) {
      notice(fmt::format(
          "{}: stopping the workers; SIGKILL follows after {} s, or at once with a second {}", name,
          static_cast<double>(config_.grace_period.count()) / 1000.0, name));
    }
    say(proto::Leave{record.signal, ""});
  } else if (round_) {
    notice(fmt::format("{} again: killing the workers now", name));
    apply(round_->group.kill_now());
  }
}

void Agent::reap_strangers() {
  // Children that are no workers: what workers left behind and we, as subreaper, inherited. Exits
  // are looked at, not taken: a worker's belongs to its pidfd, whose place in the batch of events
  // is its place in the order of deaths.
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    bool worker = false;
    if (round_) {
      const auto& workers = round_->group.workers();
      for (std::size_t i = 0; i < workers.size(); ++i) {
        if (workers[i].pid != info.si_pid || workers[i].exit) continue;
        worker = true;
        if (!round_->exits[i]) on_worker_exit(i);  // a kernel without pidfds
      }
    }
    if (worker && !round_->group.ended()) return;  // its pidfd is ready too; we come back after it
    if (!worker) reap(info.si_pid);
  }
}

void Agent::on_worker_exit(std::size_t local_rank) {
  RoundState& state = *round_;
  const auto reaped = reap(state.group.workers()[local_rank].pid);
  if (!reaped) return;
  state.exits[local_rank].reset();
  spdlog::info("round={} local_rank={} pid={} {}", state.round.number, local_rank,
               state.group.workers()[local_rank].pid, proto::describe(reaped->exit));
  apply(state.group.exited(static_cast<int>(local_rank), reaped->exit, Clock::now()));
  reap_strangers();
}

void Agent::die_with_warden() {
  kill_all_children(Clock::now() + kKillLimit);
  std::error_code ignored;
  if (!config_.run_directory.empty()) std::filesystem::remove_all(config_.run_directory, ignored);
  _exit(128 + SIGKILL);
}

// ---- membership ----

void Agent::say(proto::AgentMessage message) {
  auto actions = membership_.on(rdzv::FromAgent{kOwnId, std::move(message)}, Clock::now());
  if (!actions.log.empty()) spdlog::info("{}", actions.log);
  for (auto& send : actions.sends) inbox_.push_back(std::move(send.message));
}

void Agent::pump() {
  while (!inbox_.empty()) {
    proto::MembershipMessage message = std::move(inbox_.front());
    inbox_.pop_front();
    std::visit([this](auto& specific) { handle(specific); }, message);
  }
  membership_timer_.cancel();
  if (const auto deadline = membership_.deadline()) {
    membership_timer_.expires_at(*deadline);
    membership_timer_.async_wait([this](ErrorCode ec) {
      if (ec) return;
      auto actions = membership_.on(rdzv::DeadlinePassed{}, Clock::now());
      for (auto& send : actions.sends) inbox_.push_back(std::move(send.message));
      pump();
    });
  }
}

/// Where the next round's workers will meet: our listening socket, or a port for rank 0's.
void Agent::prepare_meeting_point() {
  if (meeting_port_) return;
  if (!config_.agent_store) {
    const auto port = config_.master_port != 0 ? Result<std::uint16_t>(config_.master_port)
                                               : reserve_port(config_.store_host);
    if (port) {
      meeting_port_ = *port;
    } else {
      say(proto::Leave{0, fmt::format("there is no free port on {}: {}", config_.store_host,
                                      port.error().message())});
    }
    return;
  }
  auto listener = rdzv::listen_store(config_.store_host, config_.master_port);
  if (listener) {
    meeting_port_ = listener->port;
    listener_.emplace(std::move(*listener));
    return;
  }
  const auto owner = listener.error().value() == EADDRINUSE ? rdzv::port_owner(config_.master_port)
                                                            : std::optional<std::string>();
  say(proto::Leave{
      0, fmt::format("no store can listen on {} port {}: {}{}; choose another --master-port (0: "
                     "any free one)",
                     config_.store_host, config_.master_port, listener.error().message(),
                     owner ? fmt::format(" ({} has it)", *owner) : "")});
}

void Agent::join() {
  prepare_meeting_point();
  if (!meeting_port_) return;
  proto::Join join;
  join.local_world_size = static_cast<int>(config_.workers.size());
  join.role = config_.role;
  join.node_name = config_.node_name;
  join.store_addr = config_.master_addr;
  join.store_port = *meeting_port_;
  say(join);
}

void Agent::handle(proto::Round& round) {
  grace_timer_.cancel();
  if (round.restart_count > 0) {
    notice(fmt::format("{}; restarting the workers ({} of {} restarts)", round.reason,
                       round.restart_count, round.max_restarts));
  }
  const int workers = static_cast<int>(config_.workers.size());
  round_.emplace(std::move(round), workers, config_.grace_period);
  RoundState& state = *round_;
  state.exits.resize(static_cast<std::size_t>(workers));
  std::vector<OutputSource> sources;
  for (int local_rank = 0; local_rank < workers && !state.group.stopping(); ++local_rank) {
    DDPRUN_ASSERT(state.round.workers[static_cast<std::size_t>(local_rank)] ==
                      proto::WorkerDirective::replace,
                  "this version of the core replaces every worker");
    start_worker(state, local_rank, sources);
  }
  offer_store(state);
  state.memory_kills = memory_kill_count();
  if (!sources.empty()) {
    if (!output_) output_.emplace();
    output_->add(std::move(sources));
  }
  say(proto::Started{state.round.number});
}

void Agent::offer_store(RoundState& state) {
  meeting_port_.reset();
  if (!listener_) return;
  state.listening.emplace(context_, listener_->fd.release());
  state.listening->async_wait(kReadable, [this, listener = std::make_shared<rdzv::StoreListener>(
                                                    std::move(*listener_))](ErrorCode ec) {
    if (ec) return;
    rdzv::StoreSettings settings;
    settings.check_uid = !config_.store_any_uid;
    settings.allowed_uids.assign(config_.store_uids.begin(), config_.store_uids.end());
    settings.reset_on_close = true;  // what is left of the old group must not wait for answers
    listener->fd.reset(round_->listening->release());
    round_->store.emplace(std::move(*listener), std::move(settings));
  });
  listener_.reset();
}

void Agent::start_worker(RoundState& state, int local_rank, std::vector<OutputSource>& sources) {
  auto process = starter_.start(state.round, local_rank, socket_ ? socket_->name() : "", sources);
  if (!process) {
    apply(state.group.not_started(
        local_rank, fmt::format("cannot execute {}: {}", config_.file, process.error().message())));
    return;
  }
  state.group.started(local_rank, process->pid, Clock::now());
  spdlog::debug("round={} local_rank={} pid={} started", state.round.number, local_rank,
                process->pid);
  if (!process->pidfd) return;  // SIGCHLD will tell
  auto& exit = state.exits[static_cast<std::size_t>(local_rank)];
  exit.emplace(context_, process->pidfd.release());
  exit->async_wait(kReadable, [this, local_rank](ErrorCode ec) {
    if (ec) return;
    on_worker_exit(static_cast<std::size_t>(local_rank));
    pump();
  });
}

void Agent::handle(proto::Stop& stop) {
  RoundState& state = *round_;
  if (stop.final || leaving_) {
    link_.ends_within(config_.grace_period +
                      std::chrono::milliseconds(kKillLimit + kOutputLimit + kWardenMargin));
  } else if (config_.master_port == 0) {
    prepare_meeting_point();  // before the old group is gone: the new port cannot be taken by it,
                              // or meet its keys
  }
  state.stop = std::move(stop);
  apply(state.group.stop(stop_signal_, Clock::now()));
}

void Agent::apply(GroupActions actions) {
  RoundState& state = *round_;
  if (actions.signal != 0) {
    signal_workers(actions.signal);
    if (paused_) signal_workers(SIGCONT);  // a stopped process cannot act on its stop signal
  }
  if (const auto deadline = state.group.deadline()) {
    grace_timer_.expires_at(*deadline);
    grace_timer_.async_wait([this](ErrorCode ec) {
      if (ec || !round_) return;
      const auto late = round_->group.deadline_passed(Clock::now());
      if (late.signal != 0) {
        notice(fmt::format("workers still run after the grace period of {} s: killing them",
                           static_cast<double>(config_.grace_period.count()) / 1000.0));
      }
      apply(late);
      pump();
    });
  }
  for (proto::WorkerFailure& failure : actions.failures) {
    if (failure.pid > 0) kill(-failure.pid, SIGKILL);  // what it left in its session holds its GPU
    say(proto::WorkerFailed{state.round.number, std::move(failure)});
  }
  if (actions.all_done) say(proto::WorkersDone{state.round.number});
  if (state.group.ended() && state.stop) end_round();
}

void Agent::signal_workers(int signal) {
  if (!round_) return;
  for (const WorkerRecord& worker : round_->group.workers()) {
    if (worker.pid > 0 && !worker.exit) kill(-worker.pid, signal);
  }
}

void Agent::end_round() {
  RoundState& state = *round_;
  if (state.cleaned_up) return;
  state.cleaned_up = true;
  grace_timer_.cancel();
  if (has_children()) result_.leftovers = !kill_all_children(Clock::now() + kKillLimit);
  state.listening.reset();
  if (state.store) result_.newer_store_clients = state.store->counters().newer_clients > 0;
  state.store.reset();
  summarize(state);
  proto::Stopped stopped;
  stopped.round = state.round.number;
  stopped.failures = failures();
  say(std::move(stopped));
  if (state.stop->final || leaving_) return;
  join();
  if (const auto deadline = membership_.deadline(); deadline && *deadline > Clock::now() + 1s)
    notice(fmt::format("the next round begins in {}", proto::describe(*deadline - Clock::now())));
}

/// Of the round that has ended. What its workers wrote last may still be on its way to us.
std::vector<proto::WorkerFailure> Agent::failures() {
  const RoundState& state = *round_;
  const auto& workers = state.group.workers();
  const bool failed = std::any_of(workers.begin(), workers.end(), [](const WorkerRecord& worker) {
    return !worker.error.empty() || (worker.exit && !worker.exit->success());
  });
  if (!failed) return {};
  if (output_) output_->drain(Clock::now() + kLastWordsLimit);
  const auto kills = memory_kill_count();
  const bool memory_kill = kills && state.memory_kills && *kills > *state.memory_kills;
  return failures_of({config_, state.round, workers, state.started_at, state.wall_started_at,
                      stop_signal_, memory_kill, output_ ? &*output_ : nullptr});
}

void Agent::summarize(const RoundState& state) {
  RoundSummary summary;
  summary.number = state.round.number;
  summary.restart_count = state.round.restart_count;
  summary.started = state.wall_started_at;
  summary.lasted = Clock::now() - state.started_at;
  summary.end = state.stop ? state.stop->reason : "";
  result_.rounds.push_back(std::move(summary));
}

void Agent::handle(proto::Finished& finished) {
  if (over_) return;  // told twice: as a member, and as one who wanted to join again
  over_ = true;
  if (round_) {
    if (has_children()) result_.leftovers = !kill_all_children(Clock::now() + kKillLimit);
    if (!round_->cleaned_up) summarize(*round_);
    result_.round = round_->round.number;
    result_.first_rank = round_->round.first_rank;
    result_.started = round_->wall_started_at;
    result_.workers = round_->group.workers();
    if (round_->store) result_.newer_store_clients = round_->store->counters().newer_clients > 0;
  }
  result_.node_name = config_.node_name;
  if (output_) {
    const auto limit = Clock::now() + kOutputLimit;
    output_->drain(limit);
    output_->flush(limit);
    result_.dropped_bytes = output_->dropped_bytes();
  }
  if (finished.verdict && finished.verdict->culprit.agent == kOwnId) {
    const auto local_rank = static_cast<std::size_t>(finished.verdict->culprit.failure.local_rank);
    const StreamMode mode = config_.workers[local_rank].standard_error.mode;
    result_.culprit_output_seen = mode != StreamMode::inherit && mode != StreamMode::null;
  }
  if (!result_.rounds.empty()) result_.rounds.back().end = finished.reason;
  result_.finished = std::move(finished);
  context_.stop();
}

// ---- words ----

void Agent::notice(const std::string& line) {
  const std::string text = "ddprun: " + line;
  if (output_) {
    output_->say(text);
  } else {
    const std::string whole = text + "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, whole.data(), whole.size());
  }
}

std::string Agent::status() const {
  nlohmann::json workers = nlohmann::json::array();
  if (round_) {
    int local_rank = 0;
    for (const WorkerRecord& worker : round_->group.workers()) {
      workers.push_back({{"rank", round_->round.first_rank + local_rank++},
                         {"pid", worker.pid},
                         {"running", worker.pid > 0 && !worker.exit}});
    }
  }
  return nlohmann::json{{"run_id", config_.run_id},
                        {"state", std::string(rdzv::to_string(membership_.state()))},
                        {"round", round_ ? round_->round.number : 0},
                        {"restart_count", membership_.restart_count()},
                        {"workers", workers}}
      .dump();
}

}  // namespace

void run_agent(const AgentConfig& config, const UserState& user, WardenLink link,
               const std::function<int(const AgentResult&)>& conclude) {
  Agent agent(config, user, std::move(link));
  const int code = conclude(agent.run());
  std::fflush(nullptr);
  // Not through the destructors: the kernel ends threads and closes descriptors faster than we join
  // them, and the static objects are the warden's copies.
  _exit(code);
}

}  // namespace ddprun::agent
