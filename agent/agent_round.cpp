// What happens to a round on this node: its workers start, are watched, stop, and are looked at.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/agent_job.hpp"
#include "agent/evidence/memory_kills.hpp"
#include "agent/round_failures.hpp"
#include "proto/assert.hpp"
#include "proto/words.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kMemoryCountAfter = 50ms;
constexpr auto kCountDownEvery = 5s;
constexpr auto kLastWordsLimit = 200ms;  // for what dead workers wrote to be read
constexpr auto kWardenMargin = 1s;       // what the warden waits beyond our own limits

}  // namespace

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
  if (!memory_kills_) count_memory_kills();
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
  if (leaving_ && state.group.deadline() && !state.group.ended()) count_down();
  for (proto::WorkerFailure& failure : actions.failures) {
    if (failure.pid > 0) kill(-failure.pid, SIGKILL);  // what it left in its session holds its GPU
    say(proto::WorkerFailed{state.round.number, std::move(failure)});
  }
  if (actions.all_done) say(proto::WorkersDone{state.round.number});
  if (state.group.ended() && state.stop) end_round();
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

void Agent::end_round() {
  RoundState& state = *round_;
  if (state.cleaned_up) return;
  state.cleaned_up = true;
  grace_timer_.cancel();
  countdown_timer_.cancel();
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
  const auto before = memory_kills_;
  memory_kills_ = memory_kill_count();
  const bool memory_kill = before && memory_kills_ && *memory_kills_ > *before;
  return failures_of({config_, state.round, workers, state.started_at, state.wall_started_at,
                      stop_signal_, memory_kill, output_ ? &*output_ : nullptr});
}

/// A start is too short for that, and nobody fills a machine's memory in so little time.
void Agent::count_memory_kills() {
  memory_timer_.expires_after(kMemoryCountAfter);
  memory_timer_.async_wait([this](ErrorCode ec) {
    if (!ec && !memory_kills_) memory_kills_ = memory_kill_count();
  });
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

}  // namespace ddprun::agent
