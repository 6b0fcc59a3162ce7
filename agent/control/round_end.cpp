// The end of a round on this node: its workers have ended, what they left behind ends too, the
// membership core is told.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "agent/control/round_failures.hpp"
#include "agent/evidence/disk_space.hpp"
#include "agent/evidence/error_file.hpp"
#include "agent/streams/log_files.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "machine/cgroups/memory_kills.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kLastWordsLimit = 200ms;  // for what dead workers wrote to be read
constexpr auto kKillLimitLeast = 200ms;
constexpr auto kSayStuckAfter = 1s;  // of leftovers that SIGKILL has not ended
constexpr std::size_t kLeftoversNamed = 8;
constexpr std::size_t kFirstRoundsKept = 10;
constexpr std::size_t kLastRoundsKept = 90;

}  // namespace

/// A worker that hangs failed, though it runs: the core stops the round for it.
void Agent::on_hang(FoundHang found) {
  RoundState& state = *round_;
  if (state.group.stopping() || state.hang) return;
  state.hang = std::move(found);
  const auto& worker = state.group.workers()[static_cast<std::size_t>(state.hang->local_rank)];
  const auto now = Clock::now();
  proto::WorkerFailed failed;
  failed.round = state.round.number;
  failed.local_rank = state.hang->local_rank;
  failed.pid = worker.pid;
  failed.ran_for = now - worker.started_at;
  failed.at = now - state.started_at;
  failed.hang = state.hang->message;
  say(std::move(failed));
}

/// All workers of the round have ended. What they have left is told to end where the workers ended
/// well or the user stopped them; what a failed round leaves is in the way of the next one.
void Agent::clear_round() {
  RoundState& state = *round_;
  if (state.leftovers.over()) return round_is_clear();
  if (state.leftovers.begun()) return;
  watch_.stop();  // a helper of ours is nothing that workers left
  suspects_.stop();
  reap_strangers();
  std::optional<Clock::duration> patience;
  if (state.patience_ends) {
    patience = *state.patience_ends - Clock::now();
  } else if (!state.stop) {
    patience = config_.grace_period;
  }
  take(state.leftovers.begin(machine::has_children(), patience, Clock::now()));
}

void Agent::look_for_leftovers() {
  if (round_ && round_->leftovers.waiting() && !machine::has_children())
    take(round_->leftovers.gone());
}

void Agent::take(Leftovers::Step step) {
  leftovers_timer_.cancel();
  switch (step) {
    case Leftovers::Step::nothing:
      break;
    case Leftovers::Step::terminate:
      name_leftovers();
      break;
    case Leftovers::Step::kill:
      kill_leftovers();
      return round_is_clear();
    case Leftovers::Step::over:
      return round_is_clear();
  }
  const auto deadline = round_->leftovers.deadline();
  if (!deadline) return;
  leftovers_timer_.expires_at(*deadline);
  leftovers_timer_.async_wait([this](ErrorCode ec) {
    if (ec || !round_) return;
    look_for_leftovers();
    if (round_->leftovers.waiting()) take(round_->leftovers.deadline_passed(Clock::now()));
  });
}

void Agent::name_leftovers() {
  const auto left = machine::live_descendants();
  std::string names;
  for (std::size_t i = 0; i < left.size() && i < kLeftoversNamed; ++i)
    names += (i > 0 ? ", " : "") + machine::name_of(left[i]);
  if (left.size() > kLeftoversNamed)
    names += fmt::format(" and {} more", left.size() - kLeftoversNamed);
  const auto patience = round_->leftovers.patience();
  if (!left.empty()) {
    notice(fmt::format(
        "the workers have exited but left processes running: {}; sent SIGTERM, SIGKILL in {}",
        names, describe(patience)));
  }
  for (const machine::ProcessEntry& process : left) {
    machine::signal_process(process, SIGTERM);
    machine::signal_process(process, SIGCONT);  // a stopped process cannot act on it
  }
}

void Agent::kill_leftovers() {
  if (spdlog::should_log(spdlog::level::info)) {
    for (const machine::ProcessEntry& process : machine::live_descendants())
      spdlog::info("round={} left behind: {}: SIGKILL", round_->round.number,
                   machine::name_of(process));
  }
  const auto now = Clock::now();
  auto limit = round_->kill_deadline.value_or(now + config_.kill_timeout) - now;
  limit = std::max<Clock::duration>(limit, kKillLimitLeast);
  auto left = kill_everything(std::min<Clock::duration>(limit, kSayStuckAfter));
  if (!left.empty() && limit > kSayStuckAfter) {
    const auto more = left.size() - 1;
    notice(fmt::format("SIGKILL has not ended {}{}; waiting for at most {} (--kill-timeout)",
                       machine::describe_stuck(left.front()),
                       more > 0 ? fmt::format(" and {} more", more) : "",
                       describe(limit - kSayStuckAfter)));
    left = kill_everything(limit - kSayStuckAfter);
  }
  for (const machine::ProcessEntry& process : left)
    result_.leftovers.push_back(machine::describe_stuck(process));
}

std::vector<machine::ProcessEntry> Agent::kill_everything(Clock::duration limit) {
  if (link_.cgroup() != nullptr) link_.cgroup()->kill();
  return machine::kill_all_children(Clock::now() + limit);
}

/// Nothing of the round is left, or only what cannot be killed.
void Agent::round_is_clear() {
  RoundState& state = *round_;
  if (state.stop) {
    report_round();
  } else {
    say(proto::WorkersDone{state.round.number});
  }
}

void Agent::report_round() {
  RoundState& state = *round_;
  if (state.reported) return;
  state.reported = true;
  grace_timer_.cancel();
  countdown_timer_.cancel();
  state.listening.reset();
  if (state.store) result_.newer_store_clients = state.store->counters().newer_clients > 0;
  state.store.reset();
  summarize(state);
  // What is left may hold the GPUs' memory and the round's files: no other round beside it.
  const bool stuck = !result_.leftovers.empty();
  if (stuck) say(proto::Leave{0, "processes of the last round could not be killed"});
  proto::Stopped stopped;
  stopped.round = state.round.number;
  tell_failures(stopped);
  remove_round_files(config_, state.round);
  result_.rounds.back().furthest_step = stopped.furthest_step;
  say(std::move(stopped));
  if (state.stop->final || leaving_ || stuck) return;
  job_state_ = "forming";
  join();
}

/// Of the round that has ended. What its workers wrote last may still be on its way to us.
void Agent::tell_failures(proto::Stopped& stopped) {
  const RoundState& state = *round_;
  const auto& workers = state.group.workers();
  const bool failed =
      state.hang || std::any_of(workers.begin(), workers.end(), [](const WorkerRecord& worker) {
        return !worker.error.empty() || (worker.exit && !worker.exit->success());
      });
  if (!failed) return;
  if (output_) output_->drain(Clock::now() + kLastWordsLimit);
  result_.full_disk = disk_shortage(config_.log_folder);
  const auto before = memory_kills_;
  memory_kills_ = machine::memory_kill_count();
  const bool memory_kill = before && memory_kills_ && *memory_kills_ > *before;
  const auto pages = read_progress_pages(config_, state.round);
  stopped.furthest_step = furthest_step(pages);
  stopped.failures =
      failures_of({config_, state.round, workers, state.started_at, state.wall_started_at,
                   state.stopped_at, stop_signal_, memory_kill, output_ ? &*output_ : nullptr,
                   pages, state.hang ? &*state.hang : nullptr});
  tell_still_running(stopped, pages);
  if (config_.keep_error_files) keep_error_files(stopped);
}

/// The round's own files are about to be removed.
void Agent::keep_error_files(const proto::Stopped& stopped) {
  result_.error_files.clear();
  for (const proto::WorkerFailure& failure : stopped.failures) {
    auto file = read_error_file(error_file(config_, round_->round, failure.local_rank));
    if (file && file->problem.empty())
      result_.error_files[failure.local_rank] = std::move(file->text);
  }
}

/// Of workers that did nothing but obey, and the stacks of those that were suspected meanwhile.
void Agent::tell_still_running(proto::Stopped& stopped, const ProgressPages& pages) const {
  const auto& stacks = suspects_.stacks();
  const auto& workers = round_->group.workers();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    const auto taken = stacks.find(local_rank);
    const auto failure = std::find_if(
        stopped.failures.begin(), stopped.failures.end(),
        [local_rank](const proto::WorkerFailure& one) { return one.local_rank == local_rank; });
    if (failure != stopped.failures.end()) {
      if (taken != stacks.end() && failure->stacks.empty()) failure->stacks = taken->second;
      continue;
    }
    if (!workers[i].stopped_by_us) continue;
    proto::RunningWorker running{local_rank, workers[i].pid, std::nullopt, {}};
    if (pages[i]) running.progress = {pages[i]->step, pages[i]->phase};
    if (taken != stacks.end()) running.stacks = taken->second;
    stopped.still_ran.push_back(std::move(running));
  }
}

/// Of the one that was the last.
void Agent::describe_last_round(const RoundState& state) {
  result_.round = state.round.number;
  result_.first_rank = state.round.first_rank;
  result_.world_size = state.round.world_size;
  result_.started = state.wall_started_at;
  result_.before_last_round = state.started_at - started_at_;
  result_.workers = state.group.workers();
  if (state.store) result_.newer_store_clients = state.store->counters().newer_clients > 0;
  if (config_.log_folder.empty()) return;
  for (std::size_t i = 0; i < config_.workers.size(); ++i) {
    const auto file = [&](const StreamSettings& stream, bool standard_error) {
      const bool logged = stream.to_file || stream.mode == StreamMode::file;
      return logged ? stream_file(config_.log_folder, state.round.restart_count,
                                  static_cast<int>(i), standard_error)
                    : std::string();
    };
    result_.logs.push_back({file(config_.workers[i].standard_output, false),
                            file(config_.workers[i].standard_error, true)});
  }
}

void Agent::summarize(const RoundState& state) {
  RoundSummary summary;
  summary.number = state.round.number;
  summary.restart_count = state.round.restart_count;
  summary.started = state.wall_started_at;
  summary.lasted = Clock::now() - state.started_at;
  summary.end = state.stop ? state.stop->reason : "";
  // A job that is restarted for weeks must not grow.
  if (result_.rounds.size() == kFirstRoundsKept + kLastRoundsKept) {
    result_.rounds.erase(result_.rounds.begin() + kFirstRoundsKept);
    ++result_.rounds_left_out;
  }
  result_.rounds.push_back(std::move(summary));
}

}  // namespace ddprun::agent
