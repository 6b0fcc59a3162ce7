// What happens to a round on this node: its workers start, are watched, stop, and are looked at.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "base/describe.hpp"
#include "machine/cgroups/memory_kills.hpp"
#include "machine/processes/exec_error.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kMemoryCountAfter = 50ms;
constexpr auto kCountDownEvery = 5s;
constexpr auto kWardenMargin = 3s;  // what the warden waits beyond our own limits

}  // namespace

void Agent::handle(proto::Round& round) {
  grace_timer_.cancel();
  suspects_.forget();
  job_state_ = "running";
  restart_count_ = round.restart_count;
  if (round.last_culprit && !result_.rounds.empty())
    result_.rounds.back().culprit = std::move(round.last_culprit);
  if (round.restart_count > announced_restarts_) {
    notice(fmt::format("{}; restarting the workers ({} of {} restarts)", round.reason,
                       round.restart_count, round.max_restarts));
  }
  const int workers = static_cast<int>(config_.workers.size());
  round_.emplace(std::move(round),
                 WorkerGroup(workers, config_.grace_period, config_.kill_timeout));
  RoundState& state = *round_;
  state.exits.resize(static_cast<std::size_t>(workers));
  std::vector<OutputSource> sources;
  for (int local_rank = 0; local_rank < workers && !state.group.stopping(); ++local_rank) {
    start_worker(state, local_rank, sources);
  }
  offer_store(state);
  if (!memory_kills_) count_memory_kills();
  watch_.begin(state.round, state.group, sources);
  if (!sources.empty()) output_->add(std::move(sources));
  if (paused_) signal_workers(SIGSTOP);
  say(proto::Started{state.round.number});
}

void Agent::handle(proto::RestartPlanned& planned) {
  job_state_ = "forming";
  restart_count_ = announced_restarts_ = planned.restart_count;
  notice(fmt::format("{}; restarting the workers in {} ({} of {} restarts)", planned.reason,
                     describe(planned.delay), planned.restart_count, planned.max_restarts));
}

/// Before the first worker, so that no descriptor is missing in the middle; the thread starts after
/// them. False: the job can't be run, which was said.
bool Agent::prepare_output() {
  std::string problem = open_files_.problem;
  if (problem.empty() && !output_ && reads_output(config_)) {
    output_.emplace(
        OutputSettings{.policy = config_.log_policy, .bar_interval = config_.bar_interval});
    if (!output_->usable()) {
      problem = "there is no descriptor for what workers print: raise the limit of open files";
      output_.reset();
    }
  }
  if (!problem.empty()) say(proto::Leave{0, problem});
  return problem.empty();
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
    settings.connections_max = std::min(settings.connections_max, open_files_.store_clients);
    settings.reset_on_close = true;  // what is left of the old group must not wait for answers
    listener->fd.reset(round_->listening->release());
    round_->store.emplace(std::move(*listener), std::move(settings));
  });
  listener_.reset();
}

void Agent::start_worker(RoundState& state, int local_rank, std::vector<OutputSource>& sources) {
  auto process = starter_.start(state.round, local_rank, socket_ ? socket_->name() : "", sources);
  if (!process) {
    const std::string why = machine::explain_exec_error(process.error().value(), config_.file);
    const GroupActions actions = state.group.not_started(
        local_rank, fmt::format("cannot execute {}: {}{}{}", config_.file,
                                process.error().message(), why.empty() ? "" : "; ", why));
    tell_failure(local_rank);
    apply(actions);
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
  });
}

void Agent::handle(proto::Stop& stop) {
  RoundState& state = *round_;
  job_state_ = "stopping";
  watch_.stop();
  if (timers_) timers_->clear();
  suspects_.stop();
  if (stop.final || leaving_) {
    link_.ends_within(config_.grace_period + config_.kill_timeout +
                      std::chrono::milliseconds(kOutputLimit + kWardenMargin));
  } else if (config_.master_port == 0) {
    prepare_meeting_point();  // before the old group is gone: the new port cannot be taken by it,
                              // or meet its keys
  }
  state.stop = std::move(stop);
  state.stopped_at = Clock::now();
  note_the_helpless(state);
  if (leaving_) state.patience_ends = Clock::now() + config_.grace_period;
  apply(state.group.stop(stop_signal_, Clock::now()));
}

/// A crash shows only when it is over: cores are written and much memory is freed first. A worker
/// in the middle of that did not crash because we stopped it. For one that is suspended the others
/// have waited.
void Agent::note_the_helpless(RoundState& state) {
  const auto& workers = state.group.workers();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pid <= 0 || workers[i].exit) continue;
    const machine::ChildCondition condition = machine::condition_of(workers[i].pid);
    if (condition.dying && !leaving_) state.group.already_dying(static_cast<int>(i));
    if (condition.suspended && !paused_) state.group.suspended(static_cast<int>(i));
  }
}

/// A suspended process cannot act on its stop signal.
void Agent::resume_suspended() {
  for (const WorkerRecord& worker : round_->group.workers()) {
    const bool live = worker.pid > 0 && !worker.exit;
    if (live && (paused_ || worker.was_suspended)) kill(-worker.pid, SIGCONT);
  }
}

void Agent::apply(const GroupActions& actions) {
  RoundState& state = *round_;
  if (actions.signal == SIGKILL && !state.kill_deadline)
    state.kill_deadline = Clock::now() + config_.kill_timeout;
  if (actions.signal != 0) {
    signal_workers(actions.signal);
    if (actions.signal != SIGKILL) resume_suspended();
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
    });
  }
  const bool waiting = state.group.deadline() && !state.group.ended();
  if (waiting && (leaving_ || state.group.killed())) count_down();
  if (state.group.ended()) report_time_outs();
  if (state.group.ended() && (actions.all_done || state.stop)) clear_round();
}

void Agent::tell_failure(int local_rank) {
  const RoundState& state = *round_;
  const WorkerRecord& worker = state.group.workers()[static_cast<std::size_t>(local_rank)];
  proto::WorkerFailed failed;
  failed.round = state.round.number;
  failed.local_rank = local_rank;
  failed.pid = worker.pid;
  failed.exit = *worker.exit;
  failed.ran_for = worker.ran_for;
  if (worker.pid > 0) failed.at = worker.ended_at - state.started_at;
  failed.error = worker.error;
  if (keep_back(failed)) return;
  report_time_outs();
  say(std::move(failed));
}

/// A worker that has timed out waiting for its peers is not the cause. Before the others are
/// stopped for it, their stacks may show which of them hangs.
bool Agent::keep_back(proto::WorkerFailed& failure) {
  RoundState& state = *round_;
  if (leaving_ || state.stop || state.group.ended() || !output_) return false;
  const LineSigns signs = output_->signs(state.round.number, failure.local_rank);
  // Once one has timed out and gone, others may lose it.
  const bool waited =
      suspects_.waiting() ? !victim_phrase(signs.message()).empty() : is_time_out(signs.message());
  if (!waited) return false;
  suspects_.timed_out(state.round, state.group, std::move(failure));
  return true;
}

void Agent::report_time_outs() {
  for (proto::WorkerFailed& failure : suspects_.stop()) say(std::move(failure));
}

/// Somebody waits for the job to end: says how long that may still take.
void Agent::count_down() {
  countdown_timer_.expires_after(kCountDownEvery);
  countdown_timer_.async_wait([this](ErrorCode ec) {
    if (ec || !round_ || !round_->group.deadline()) return;
    const auto left =
        std::chrono::ceil<std::chrono::seconds>(*round_->group.deadline() - Clock::now());
    if (left <= 0s) return;
    const auto& workers = round_->group.workers();
    if (round_->group.killed()) {
      for (const machine::ProcessEntry& process : machine::live_children())
        notice(fmt::format("SIGKILL has not ended {} yet; giving up in {} s",
                           machine::describe_stuck(process), left.count()));
      return;
    }
    const auto running = std::count_if(workers.begin(), workers.end(), [](const auto& worker) {
      return worker.pid > 0 && !worker.exit;
    });
    notice(fmt::format("waiting for {} of {} workers; SIGKILL in {} s", running, workers.size(),
                       left.count()));
    count_down();
  });
}

void Agent::signal_workers(int signal) {
  if (!round_) return;
  for (const WorkerRecord& worker : round_->group.workers()) {
    if (worker.pid > 0 && !worker.exit) kill(-worker.pid, signal);
  }
}

/// A start is too short for that, and nobody fills a machine's memory in so little time.
void Agent::count_memory_kills() {
  memory_timer_.expires_after(kMemoryCountAfter);
  memory_timer_.async_wait([this](ErrorCode ec) {
    if (!ec && !memory_kills_) memory_kills_ = machine::memory_kill_count();
  });
}

}  // namespace ddprun::agent
