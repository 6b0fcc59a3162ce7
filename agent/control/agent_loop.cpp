#include "agent/agent.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "agent/control/agent_loop.hpp"
#include "agent/control/own_log.hpp"
#include "agent/control/port_reservation.hpp"
#include "base/bounded_write.hpp"
#include "base/describe.hpp"
#include "rendezvous/membership/verdict.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

// One wish may reach us twice: Ctrl-C from the terminal and from a wrapper, SIGTERM and the SIGHUP
// that systemd can send behind it. Only what comes later is impatience.
constexpr auto kSameWishWithin = 100ms;
constexpr auto kNoticeLimit = 500ms;
constexpr auto kScreenLimit = 200ms;  // for a change of what the terminal shows
constexpr auto kReportLimit = 6s;     // for the report to be written

bool workers_have_our_output(const AgentConfig& config) {
  return std::any_of(config.workers.begin(), config.workers.end(),
                     [](const WorkerSettings& worker) {
                       return worker.standard_output.mode == StreamMode::inherit ||
                              worker.standard_error.mode == StreamMode::inherit;
                     });
}

std::string not_our_address(const AgentConfig& config) {
  const std::string resolved =
      config.master_addr == config.store_host ? "" : " (" + config.store_host + ")";
  return fmt::format("{}{} is not an address of this machine; leave out --master-addr",
                     config.master_addr, resolved);
}

}  // namespace

const AgentResult& Agent::run() {
  // For the store's clients and the workers' streams; workers get the user's own limit back.
  open_files_ = open_files_for(config_, raise_open_files_limit());
  log_through([this](const std::string& line) { notice(line); }, config_.log_level);
  signals_.start(link_);
  auto socket =
      JobSocket::open(context_, config_.run_id, [this](const std::string&) { return status(); });
  if (socket) {
    socket_.emplace(std::move(*socket));
  } else {
    spdlog::info("no job socket: {}", socket.error().message());
  }
  watch_timers();
  join();
  // Behind the first round: its workers come first.
  asio::post(context_, [this] {
    if (socket_) socket_->start();
  });
  context_.run();
  return result_;
}

// ---- events ----

void Agent::on_signal(const warden::SignalRecord& record) {
  if (record.signal == SIGTSTP) {
    // Ctrl-Z: the workers first; the warden, which the shell looks at, when they are.
    signal_workers(SIGSTOP);
    paused_ = true;
    watch_.pause();
    if (output_) output_->pause(Clock::now() + kScreenLimit);
    if (timers_) timers_->pause();
    link_.workers_paused();
    return;
  }
  if (record.signal == SIGCONT) {
    if (paused_) signal_workers(SIGCONT);
    paused_ = false;
    watch_.resume();
    if (output_) output_->resume();
    if (timers_) timers_->resume();
    return;
  }
  if (record.signal == SIGWINCH) {
    if (output_) output_->resize(Clock::now() + kScreenLimit);  // before the workers look
    signal_workers(SIGWINCH);
    return;
  }
  const auto& forward = config_.forward_signals;
  if (std::find(forward.begin(), forward.end(), record.signal) != forward.end()) {
    signal_workers(record.signal);
    return;
  }
  const bool repeated =
      last_signal_ &&
      std::chrono::nanoseconds(record.monotonic_ns - last_signal_->monotonic_ns) < kSameWishWithin;
  if (repeated) return;
  const bool first = !last_signal_;
  const bool again = last_signal_ && last_signal_->signal == record.signal;
  last_signal_ = record;
  const std::string name = signal_name(record.signal);
  if (first && round_ && round_->leftovers.waiting() && !round_->stop) {
    // The workers have succeeded, and so has the job: only what they left is in the way.
    take(round_->leftovers.kill_now());
  } else if (first) {
    leaving_ = true;
    stop_signal_ = record.signal;
    if (round_ && !round_->group.ended()) {
      notice(fmt::format(
          "{}: stopping the workers; SIGKILL follows after {} s, or at once with a second {}", name,
          static_cast<double>(config_.grace_period.count()) / 1000.0, name));
    }
    say(proto::Leave{record.signal, ""});
  } else if (round_) {
    notice(fmt::format("{}: killing the workers now", again ? name + " again" : name));
    apply(round_->group.kill_now(Clock::now()));
    take(round_->leftovers.kill_now());
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
        // A kernel without pidfds, or a worker that had died before its tracer let it go.
        if (!round_->exits[i]) on_worker_exit(i);
      }
    }
    if (worker && !round_->group.ended()) return;  // its pidfd is ready too; we come back after it
    if (!worker && !watch_.child_ended(info.si_pid) && !suspects_.child_ended(info.si_pid))
      machine::reap(info.si_pid);
  }
}

void Agent::on_worker_exit(std::size_t local_rank) {
  RoundState& state = *round_;
  const pid_t pid = state.group.workers()[local_rank].pid;
  // What it has left of its group holds its GPU. Python's resource tracker is left to clean up. Not
  // later: once the worker is reaped, its number may be another group's.
  const auto ended = machine::exit_of(pid);
  if (ended && !ended->success() && !state.group.stopping()) kill(-pid, SIGTERM);
  const auto reaped = machine::reap(pid);
  // It has died and cannot be reaped while a debugger holds it; SIGCHLD tells when that lets go.
  state.exits[local_rank].reset();
  if (!reaped) return;
  if (timers_) timers_->worker_ended(pid);
  spdlog::info("round={} local_rank={} pid={} {}", state.round.number, local_rank, pid,
               describe(reaped->exit));
  const GroupActions actions =
      state.group.exited(static_cast<int>(local_rank), reaped->exit, Clock::now(), reaped->used);
  if (actions.failed) tell_failure(static_cast<int>(local_rank));
  apply(actions);
  reap_strangers();
}

void Agent::die_with_warden() {
  kill_everything(config_.kill_timeout);
  std::error_code ignored;
  if (!config_.run_directory.empty()) std::filesystem::remove_all(config_.run_directory, ignored);
  _exit(128 + SIGKILL);
}

// ---- membership ----

/// Where the next round's workers will meet: our listening socket, or a port for rank 0's.
void Agent::prepare_meeting_point() {
  if (meeting_port_) return;
  if (!config_.agent_store) {
    const auto port = config_.master_port != 0 ? Result<std::uint16_t>(config_.master_port)
                                               : reserve_port(config_.store_host);
    if (port) {
      meeting_port_ = *port;
    } else {
      const bool elsewhere = port.error().value() == EADDRNOTAVAIL;
      say(proto::Leave{0, elsewhere ? not_our_address(config_)
                                    : fmt::format("there is no free port on {}: {}",
                                                  config_.store_host, port.error().message())});
    }
    return;
  }
  auto listener = rdzv::listen_store(config_.store_host, config_.master_port);
  if (listener) {
    meeting_port_ = listener->port;
    listener_.emplace(std::move(*listener));
    return;
  }
  if (listener.error().value() == EADDRNOTAVAIL) {
    say(proto::Leave{0, not_our_address(config_)});
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
  if (!prepare_output()) return;
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

void Agent::handle(proto::Finished& finished) {
  if (over_) return;  // told twice: as a member, and as one who wanted to join again
  over_ = true;
  job_state_ = "finished";
  if (timers_) timers_->remove();
  link_.ends_within(config_.kill_timeout + std::chrono::milliseconds(2 * kOutputLimit) +
                    kReportLimit);
  if (round_) {
    if (machine::has_children() && result_.leftovers.empty()) kill_leftovers();
    if (!round_->reported) summarize(*round_);
    describe_last_round(*round_);
  }
  result_.job_started = wall_started_at_;
  result_.job_lasted = Clock::now() - started_at_;
  result_.node_name = config_.node_name;
  // `auto` goes on without a cgroup where none could be made.
  const bool no_cgroup =
      config_.containment == machine::ContainmentLevel::cgroup && link_.cgroup() == nullptr;
  result_.containment = no_cgroup ? machine::ContainmentLevel::tree : config_.containment;
  if (output_) {
    const auto limit = Clock::now() + kOutputLimit;
    output_->drain(limit);
    output_->flush(limit);
    result_.dropped_bytes = output_->dropped_bytes();
  }
  if (!workers_have_our_output(config_)) {
    result_.stdout_unfinished = output_ && output_->unfinished_line(false);
    result_.stderr_unfinished = output_ && output_->unfinished_line(true);
  }
  if (finished.verdict && finished.verdict->culprit.agent == membership_->own_id()) {
    const auto local_rank = static_cast<std::size_t>(finished.verdict->culprit.failure.local_rank);
    const StreamMode mode = config_.workers[local_rank].standard_error.mode;
    result_.last_lines_on_screen =
        output_ && output_->last_lines_on_screen(result_.round, static_cast<int>(local_rank));
    result_.culprit_output_seen = mode != StreamMode::inherit && mode != StreamMode::null;
  }
  if (!result_.rounds.empty()) {
    result_.rounds.back().end = finished.reason;
    if (finished.verdict)
      result_.rounds.back().culprit = rdzv::without_lines(finished.verdict->culprit);
  }
  result_.finished = std::move(finished);
  context_.stop();
}

// ---- words ----

void Agent::notice(const std::string& line) {
  const std::string text = "ddprun: " + line;
  if (output_) {
    output_->say(text);
  } else {
    write_within(STDERR_FILENO, text + "\n", kNoticeLimit);
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
                        {"state", job_state_},
                        {"round", round_ ? round_->round.number : 0},
                        {"restart_count", restart_count_},
                        {"workers", workers}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void run_agent(const AgentConfig& config, const machine::UserState& user, warden::WardenLink link,
               const std::function<int(const AgentResult&)>& conclude) {
  const int socket = link.socket();
  Agent agent(config, user, std::move(link));
  const AgentResult& result = agent.run();
  // From here on there is nothing to clean up, and nobody who listens to the signal of before.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char nothing = 0;
  if (recv(socket, &nothing, 1, MSG_PEEK | MSG_DONTWAIT) == 0) _exit(128 + SIGKILL);
  const int code = conclude(result);
  std::fflush(nullptr);
  // Not through the destructors: the kernel ends threads and closes descriptors faster than we join
  // them, and the static objects are the warden's copies.
  _exit(code);
}

}  // namespace ddprun::agent
