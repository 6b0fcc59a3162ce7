// The end of a round on this node: what its workers left behind ends, the membership core gets what
// was seen.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "agent/control/agent_loop.hpp"
#include "agent/evidence/disk_space.hpp"
#include "agent/evidence/error_file.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::agent {

namespace {

/// Others may have waited for workers that had ended well.
std::vector<proto::EndedWorker> ended_well(const NodeRound& round) {
  std::vector<proto::EndedWorker> ended;
  for (std::size_t i = 0; i < round.group.workers().size(); ++i) {
    const WorkerRecord& worker = round.group.workers()[i];
    if (worker.stopped_by_us || !worker.exit || !worker.exit->success()) continue;
    ended.push_back({static_cast<int>(i), worker.pid, worker.ended_at - round.started_at});
  }
  return ended;
}

/// Workers that have lost another one, and left the round for it: its victims.
void add_leavers(proto::Stopped& stopped, const NodeRound& round) {
  for (const int local_rank : round.leavers) {
    const bool is_known = std::any_of(
        stopped.failures.begin(), stopped.failures.end(),
        [local_rank](const proto::WorkerFailure& one) { return one.local_rank == local_rank; });
    if (is_known) continue;
    proto::WorkerFailed failed = round.failure_of_leaver(local_rank, round.stopped_at.value());
    proto::WorkerFailure failure = rdzv::without_evidence(failed);
    failure.evidence.victim_phrase = "lost another worker";
    stopped.failures.push_back(std::move(failure));
  }
}

/// Adds workers that did nothing but obey, and the stacks of those that were suspected meanwhile.
void add_still_running(proto::Stopped& stopped, const NodeRound& round, const ProgressPages& pages,
                       const std::map<int, std::vector<std::string>>& stacks) {
  const auto& workers = round.group.workers();
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
    if (!workers[i].stopped_by_us && !workers[i].waits()) continue;
    proto::RunningWorker running{local_rank, workers[i].pid, std::nullopt, {}};
    if (pages[i]) running.progress = {pages[i]->step, pages[i]->phase};
    if (taken != stacks.end()) running.stacks = taken->second;
    stopped.still_ran.push_back(std::move(running));
  }
}

/// It was chosen before the stop; how it ended is known only now.
void add_end(proto::SlowestWorker& slowest, const NodeRound& round) {
  proto::WorkerFailure& hang = slowest.as_hang;
  const WorkerRecord& worker = round.group.workers()[static_cast<std::size_t>(hang.local_rank)];
  hang.exit = worker.exit.value_or(ExitStatus{});
  hang.used = worker.used;
  hang.ran_for = worker.ran_for;
  hang.ended_at = worker.ended_at - round.started_at;
}

/// By local rank. The round's own files are about to be removed.
std::map<int, std::string> error_files_of(const AgentConfig& config,
                                          const std::vector<WorkerRecord>& workers,
                                          const std::vector<proto::WorkerFailure>& failures) {
  std::map<int, std::string> files;
  for (const proto::WorkerFailure& failure : failures) {
    const WorkerRecord& worker = workers[static_cast<std::size_t>(failure.local_rank)];
    auto file = read_error_file(error_file(config, worker.start, failure.local_rank));
    if (file && file->problem.empty()) files[failure.local_rank] = std::move(file->text);
  }
  return files;
}

}  // namespace

void Agent::end_round() {
  const NodeRound& round = *machine().round();
  if (!result_.rounds.empty() && result_.rounds.back().number == round.round.number) return;
  link_.lease(std::nullopt);  // no workers are here that could outlive it
  store_.end();
  const auto now = Clock::now();
  local_.note(RoundEnded{now - round.started_at}, machine(), start_.wall_time_of(now));
  add_summary(result_, round, start_);
}

void Agent::report_round() {
  end_round();
  const NodeRound& round = *machine().round();
  proto::Stopped stopped = gather_evidence();
  remove_worker_files(config_, workers());
  stopped.losses = {output_.dropped_bytes(), descendants_.unkillable()};
  if (config_.rendezvous) stopped.slowest = watches_.take_slowest();
  if (stopped.slowest) add_end(*stopped.slowest, round);
  result_.rounds.back().furthest_step = stopped.furthest_step;
  membership_->send(std::move(stopped), round.started_at);
  // Beside the next round: it takes seconds where there is much, and the core shall not wait.
  shared_memory_.end_round(workers());
  asio::post(context_,
             [this] { in_turns(context_, [this] { return shared_memory_.remove_next(); }); });
}

proto::Stopped Agent::gather_evidence() {
  const NodeRound& round = *machine().round();
  proto::Stopped stopped;
  stopped.round = round.round.number;
  stopped.ended = ended_well(round);
  if (!round.has_failures() && round.leavers.empty()) return stopped;
  result_.output.full_disk = disk_shortage(config_.logs.folder);
  const bool memory_kill = watches_.take_memory_kill();
  const auto pages = read_progress_pages(config_, workers());
  stopped.furthest_step = furthest_step(pages);
  stopped.failures =
      failures_of({config_, round.round, workers(), round.started_at, handles_->wall_started_at,
                   round.stopped_at, round.stop_signal, memory_kill, output_.of_workers(), pages,
                   round.hang ? &*round.hang : nullptr});
  add_leavers(stopped, round);
  if (!stopped.failures.empty()) stopped.program = config_.report.program;
  add_still_running(stopped, round, pages, watches_.stacks());
  if (config_.report.keep_error_files)
    result_.error_files = error_files_of(config_, workers(), stopped.failures);
  return stopped;
}

}  // namespace ddprun::agent
