#include "agent/control/worker_watches.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "machine/cgroups/job_cgroup.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kMemoryCountAfter = 50ms;

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

WorkerWatches::WorkerWatches(boost::asio::io_context& context, const AgentConfig& config,
                             const machine::UserState& user, const NodeMachine& machine,
                             Descendants& descendants, Events events)
    : context_(context),
      config_(config),
      machine_(machine),
      descendants_(descendants),
      events_(std::move(events)),
      round_(context, config, user, {events_.notice, events_.hung}),
      suspects_(context, config, user, {events_.notice, events_.suspects_seen}),
      slow_(context, config,
            {[this] { return machine_.round() != nullptr ? &machine_.round()->group : nullptr; },
             [this](const SlowRank& found) { tell_of(found); }}),
      memory_timer_(context) {}

void WorkerWatches::start() {
  const std::string path = timer_file(config_);
  if (path.empty()) return;
  timers_.emplace(context_, path, [this](const ExpiredTimer& timer) {
    descendants_.find([this, timer](const Descendants::Processes& all) { stop_for(timer, all); });
  });
}

void WorkerWatches::begin_round(std::vector<OutputSource>& sources) {
  const NodeRound& round = *machine_.round();
  suspects_.forget();
  if (!memory_kills_) count_memory_kills();
  round_.begin(round.round, round.group, sources);
  slow_.begin();
}

void WorkerWatches::end_round() {
  slowest_ = round_.slowest(machine_.round()->started_at);
  stop();
  if (timers_) timers_->clear();
}

void WorkerWatches::stop() {
  round_.stop();
  suspects_.stop();
  slow_.stop();
}

void WorkerWatches::pause() {
  round_.pause();
  slow_.pause();
  if (timers_) timers_->pause();
}

void WorkerWatches::resume() {
  round_.resume();
  slow_.resume();
  if (timers_) timers_->resume();
}

void WorkerWatches::look_at_suspects(int local_rank) {
  suspects_.timed_out(machine_.round()->round, machine_.round()->group, local_rank);
}

void WorkerWatches::worker_ended(pid_t pid) {
  if (timers_) timers_->worker_ended(pid);
  round_.worker_ended(pid);
  suspects_.worker_ended(pid);
}

void WorkerWatches::tell_of(const SlowRank& found) {
  const NodeRound& round = *machine_.round();
  const WorkerRecord& worker = round.group.workers()[static_cast<std::size_t>(found.local_rank)];
  const int rank = round.round.first_rank + found.local_rank;
  events_.notice(fmt::format(
      "rank {} is slow: a step takes it {} without waiting for others, {:.2f} times as long as the "
      "other ranks here ({})",
      rank, describe(found.step_time), found.factor, describe(found.others_time)));
  events_.slow({{rank, found.local_rank, worker.pid}, found.factor, found.step_time});
}

/// A start is too short for that: no process fills a machine's memory in so little time.
void WorkerWatches::count_memory_kills() {
  memory_timer_.expires_after(kMemoryCountAfter);
  memory_timer_.async_wait([this](ErrorCode ec) {
    if (!ec && !memory_kills_) memory_kills_ = machine::memory_kill_count();
  });
}

bool WorkerWatches::take_memory_kill() {
  const auto before = std::exchange(memory_kills_, machine::memory_kill_count());
  return before && memory_kills_ && *memory_kills_ > *before;
}

/// Any process that may write into the pipe can name another: only those of the job are signalled.
void WorkerWatches::stop_for(const ExpiredTimer& timer, const Descendants::Processes& all) {
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
  events_.notice(fmt::format("rank {}: {}: {}", round->round.first_rank + found.local_rank,
                             found.message, signal_name(timer.signal)));
  // First: the end of the process is then the end of a worker that hangs.
  events_.hung(std::move(found));
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
