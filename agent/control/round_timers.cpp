// What follows when a timer of a worker expires (torch.distributed.elastic.timer).
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"

namespace ddprun::agent {
namespace {

/// The process itself, or the one of `candidates` below which it is; -1: neither.
pid_t ancestor_among(const std::vector<pid_t>& candidates, pid_t pid,
                     const std::vector<machine::ProcessEntry>& all) {
  std::unordered_map<pid_t, pid_t> parents;
  for (const machine::ProcessEntry& process : all) parents.emplace(process.pid, process.parent);
  // Parents come first, so that a walk towards them ends.
  for (std::size_t steps = 0; steps <= all.size(); ++steps) {
    if (std::find(candidates.begin(), candidates.end(), pid) != candidates.end()) return pid;
    const auto parent = parents.find(pid);
    if (parent == parents.end()) return -1;
    pid = parent->second;
  }
  return -1;
}

}  // namespace

void Agent::watch_timers() {
  const std::string path = timer_file(config_);
  if (path.empty()) return;
  timers_.emplace(context_, path, [this](const ExpiredTimer& timer) { on_timer(timer); });
}

void Agent::on_timer(const ExpiredTimer& timer) {
  descendants_.find(
      [this, timer](const std::vector<machine::ProcessEntry>& all) { stop_for(timer, all); });
}

/// Any process that may write into the pipe can name another: only those of the job are signalled.
void Agent::stop_for(const ExpiredTimer& timer, const std::vector<machine::ProcessEntry>& all) {
  const NodeRound* round = machine_.round();
  if (round == nullptr || round->group.stopping() || round->hang) return;
  const auto& workers = round->group.workers();
  std::vector<pid_t> live;
  for (const WorkerRecord& worker : workers) {
    if (worker.running()) live.push_back(worker.pid);
  }
  const pid_t pid = ancestor_among(live, timer.pid, all);
  if (pid < 0) {
    if (kill(timer.pid, 0) != 0 && errno == ESRCH) return;  // it has ended
    spdlog::warn("timer '{}' is ignored: pid {} is no process of this job", timer.scope, timer.pid);
    return;
  }
  const auto worker = std::find_if(workers.begin(), workers.end(),
                                   [pid](const WorkerRecord& record) { return record.pid == pid; });
  FoundHang found;
  found.local_rank = static_cast<int>(worker - workers.begin());
  found.message = fmt::format("timer '{}' expired after {}", timer.scope, describe(timer.ran_for));
  found.since = Clock::now() - std::chrono::duration_cast<Clock::duration>(timer.ran_for);
  notice(fmt::format("rank {}: {}: {}", round->round.first_rank + found.local_rank, found.message,
                     signal_name(timer.signal)));
  // First: the end of the process is then the end of a worker that hangs.
  handle(std::move(found));
  const auto process =
      std::find_if(all.begin(), all.end(),
                   [&](const machine::ProcessEntry& entry) { return entry.pid == timer.pid; });
  if (timer.pid == pid) {
    kill(pid, timer.signal);
  } else if (process != all.end()) {
    machine::signal_process(*process, timer.signal);
  }
}

}  // namespace ddprun::agent
