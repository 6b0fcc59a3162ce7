// The end of a round on this node: what its workers left behind ends, the membership core gets what
// was seen.
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "agent/control/agent_loop.hpp"
#include "agent/evidence/disk_space.hpp"
#include "agent/evidence/error_file.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"

namespace ddprun::agent {

namespace {

constexpr std::size_t kFirstRoundsKept = 10;
constexpr std::size_t kLastRoundsKept = 90;

}  // namespace

void Agent::obey(const LookForLeftovers&) {
  watches_.stop();  // a helper of ours is nothing that workers left
  reap_strangers();
  handle(LeftoversSeen{machine::has_children()});
}

void Agent::obey(const TerminateLeftovers& action) {
  descendants_.terminate(action.patience, [this] { return machine_.waits_for_leftovers(); });
}

void Agent::obey(const KillLeftovers& action) {
  descendants_.kill(machine_.round()->round.number, action.limit,
                    [this] { handle(LeftoversSeen{!descendants_.unkillable().empty()}); });
}

void Agent::obey(const ReportRound&) {
  const NodeRound& round = *machine_.round();
  link_.lease(std::nullopt);  // no workers are here that could outlive it
  store_.end();
  summarize_round();
  proto::Stopped stopped = gather_evidence();
  remove_round_files(config_, round.round);
  stopped.losses = {output_.dropped_bytes(), descendants_.unkillable()};
  if (config_.rendezvous) add_slowest(stopped);
  result_.rounds.back().furthest_step = stopped.furthest_step;
  membership_->send(std::move(stopped), round.started_at);
  // Beside the next round: it takes seconds where there is much, and the core shall not wait.
  shared_memory_.end_round(workers());
  asio::post(context_,
             [this] { in_turns(context_, [this] { return shared_memory_.remove_next(); }); });
}

/// What workers wrote last may still be on its way to us.
proto::Stopped Agent::gather_evidence() {
  const NodeRound& round = *machine_.round();
  proto::Stopped stopped;
  stopped.round = round.round.number;
  add_ended(stopped);
  const bool failed =
      round.hang || std::any_of(workers().begin(), workers().end(), [](const WorkerRecord& worker) {
        return !worker.error.empty() || (worker.exit && !worker.exit->success());
      });
  if (!failed) return stopped;
  output_.read_to_end();
  result_.full_disk = disk_shortage(config_.log_folder);
  const bool memory_kill = watches_.take_memory_kill();
  const auto pages = read_progress_pages(config_, round.round);
  stopped.furthest_step = furthest_step(pages);
  stopped.failures =
      failures_of({config_, round.round, workers(), round.started_at, handles_->wall_started_at,
                   round.stopped_at, round.stop_signal, memory_kill, output_.of_workers(), pages,
                   round.hang ? &*round.hang : nullptr});
  if (!stopped.failures.empty()) stopped.program = config_.program;
  add_still_running(stopped, pages);
  if (config_.keep_error_files) keep_error_files(stopped);
  return stopped;
}

/// The round's own files are about to be removed.
void Agent::keep_error_files(const proto::Stopped& stopped) {
  result_.error_files.clear();
  for (const proto::WorkerFailure& failure : stopped.failures) {
    auto file = read_error_file(error_file(config_, machine_.round()->round, failure.local_rank));
    if (file && file->problem.empty())
      result_.error_files[failure.local_rank] = std::move(file->text);
  }
}

/// Others may have waited for workers that had ended well.
void Agent::add_ended(proto::Stopped& stopped) const {
  for (std::size_t i = 0; i < workers().size(); ++i) {
    const WorkerRecord& worker = workers()[i];
    if (worker.stopped_by_us || !worker.exit || !worker.exit->success()) continue;
    stopped.ended.push_back(
        {static_cast<int>(i), worker.pid, worker.ended_at - machine_.round()->started_at});
  }
}

/// Adds workers that did nothing but obey, and the stacks of those that were suspected meanwhile.
void Agent::add_still_running(proto::Stopped& stopped, const ProgressPages& pages) const {
  const auto& stacks = watches_.stacks();
  for (std::size_t i = 0; i < workers().size(); ++i) {
    const int local_rank = static_cast<int>(i);
    const auto taken = stacks.find(local_rank);
    const auto failure = std::find_if(
        stopped.failures.begin(), stopped.failures.end(),
        [local_rank](const proto::WorkerFailure& one) { return one.local_rank == local_rank; });
    if (failure != stopped.failures.end()) {
      if (taken != stacks.end() && failure->stacks.empty()) failure->stacks = taken->second;
      continue;
    }
    if (!workers()[i].stopped_by_us) continue;
    proto::RunningWorker running{local_rank, workers()[i].pid, std::nullopt, {}};
    if (pages[i]) running.progress = {pages[i]->step, pages[i]->phase};
    if (taken != stacks.end()) running.stacks = taken->second;
    stopped.still_ran.push_back(std::move(running));
  }
}

/// It was chosen before the stop; how it ended is known only now.
void Agent::add_slowest(proto::Stopped& stopped) {
  stopped.slowest = watches_.take_slowest();
  if (!stopped.slowest) return;
  proto::WorkerFailure& hang = stopped.slowest->as_hang;
  const WorkerRecord& worker = workers()[static_cast<std::size_t>(hang.local_rank)];
  hang.exit = worker.exit.value_or(ExitStatus{});
  hang.used = worker.used;
  hang.ran_for = worker.ran_for;
  hang.ended_at = worker.ended_at - machine_.round()->started_at;
}

void Agent::summarize_round() {
  const NodeRound& round = *machine_.round();
  RoundSummary summary;
  summary.number = round.round.number;
  summary.restart_count = round.round.restart_count;
  summary.started = wall_time_of(round.started_at);
  summary.lasted = Clock::now() - round.started_at;
  summary.end = round.stop ? round.stop->reason : "";
  // A job that is restarted for weeks must not grow.
  if (result_.rounds.size() == kFirstRoundsKept + kLastRoundsKept) {
    result_.rounds.erase(result_.rounds.begin() + kFirstRoundsKept);
    ++result_.rounds_left_out;
  }
  result_.rounds.push_back(std::move(summary));
}

}  // namespace ddprun::agent
