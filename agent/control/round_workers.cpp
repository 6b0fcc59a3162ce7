// The workers of a round on this node: their start, signals to them, and their ends.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "agent/progress/progress_page.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/boot_clock.hpp"
#include "base/describe.hpp"
#include "base/no_descriptor.hpp"
#include "machine/processes/exec_error.hpp"
#include "machine/processes/process_tree.hpp"

namespace ddprun::agent {
namespace {

/// Before the signal, for workers that look when it comes.
void write_stop_reasons(const AgentConfig& config, const NodeRound& round, StopReason reason) {
  const auto& workers = round.group.workers();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].gets_signals()) continue;
    write_stop_reason(progress_file(config, workers[i].start, static_cast<int>(i)), reason);
  }
}

/// Local ranks of those that do not go on from the round before.
std::vector<int> started_ranks(const NodeRound& round) {
  const auto& keep = round.round.keep;
  std::vector<int> local_ranks;
  for (int i = 0; i < static_cast<int>(round.group.workers().size()); ++i)
    if (std::find(keep.begin(), keep.end(), i) == keep.end()) local_ranks.push_back(i);
  return local_ranks;
}

std::string why_not_executed(const std::string& file, ErrorCode error) {
  const std::string why = machine::explain_exec_error(error.value(), file);
  return fmt::format("cannot execute {}: {}{}{}", file, error.message(), why.empty() ? "" : "; ",
                     why);
}

}  // namespace

void RoundHandles::take_over(RoundHandles& before, std::size_t local_rank) {
  exits[local_rank] = std::move(before.exits[local_rank]);
  for (const SeenExit& seen : before.seen_exits)
    if (seen.local_rank == local_rank) seen_exits.push_back(seen);
}

void RoundHandles::watch(asio::io_context& context, std::size_t local_rank, UniqueFd pidfd,
                         std::function<void()> ended) {
  if (!pidfd) return;
  auto& exit = exits[local_rank];
  ErrorCode failed;
  exit.emplace(context).assign(pidfd.get(), failed);
  if (failed) return exit.reset();
  static_cast<void>(pidfd.release());  // Asio closes it
  exit->async_wait(kReadable, [ended = std::move(ended)](ErrorCode ec) {
    if (!ec) ended();
  });
}

void Agent::prepare() {
  launch_.when_ready([this] {
    std::string problem = open_files_.problem;
    if (problem.empty()) problem = output_.prepare();
    if (problem.empty()) problem = store_.prepare();
    store_.warn_of_few_files();
    const RoundStore::Place place = store_.place();
    const auto clients = std::min<std::uint64_t>(store_.clients_max(), INT_MAX);
    handle(Prepared{place.addr, place.port, static_cast<int>(clients),
                    nodes_ != nullptr && nodes_->is_host(), std::move(problem)});
  });
}

void Agent::start_workers(const StartWorkers& action) {
  const NodeRound& round = *machine().round();
  if (nodes_ != nullptr) nodes_->keep_lease();
  if (result_.rounds.empty() && !config_.start_note.empty()) output_.notice(config_.start_note);
  if (round.round.last_culprit && !result_.rounds.empty())
    result_.rounds.back().culprit = round.round.last_culprit;
  std::optional<RoundHandles> before = std::exchange(handles_, std::nullopt);
  handles_.emplace();
  shared_memory_.begin_round(handles_->wall_started_at, !round.round.keep.empty());
  handles_->exits.resize(config_.workers.size());
  for (std::size_t i = 0; i < workers().size(); ++i)
    if (before && workers()[i].running()) handles_->take_over(*before, i);
  for (const auto& dropped : action.dropped) {
    remove_files_of_worker(config_, dropped.start, dropped.local_rank);
    local_.workers.forget(dropped.local_rank);
  }
  launch_.set_reached_step(local_.ledger.reached_step());
  const auto local_ranks = started_ranks(round);
  const auto launch = [this, local_ranks] {
    launch_.launch(machine().round()->round, local_ranks, local_.socket_name(),
                   [this, local_ranks](std::vector<LaunchedWorker> launched) {
                     take_workers(local_ranks, std::move(launched));
                   });
  };
  if (!action.clears) return launch();
  local_.answers.stop();  // a helper of ours is nothing that workers left
  // What they hold, such as a GPU's memory, is what the workers need that take their place.
  const auto& stuck = descendants_.unkillable();
  descendants_.kill(round.round.number, config_.stop.kill_timeout,
                    [this, &stuck, before = stuck.size(), local_ranks, launch] {
                      if (stuck.size() == before) return launch();
                      take_workers(
                          local_ranks, {},
                          "SIGKILL has not ended a process of the last round: " + stuck.back());
                    });
}

void Agent::take_workers(const std::vector<int>& local_ranks, std::vector<LaunchedWorker> launched,
                         const std::string& problem) {
  const proto::Round& round = machine().round()->round;
  const auto now = Clock::now();
  WorkersStarted started;
  for (const WorkerRecord& kept : workers()) started.workers.push_back({kept.pid, now, ""});
  if (!problem.empty())
    for (const int local_rank : local_ranks)
      started.workers[static_cast<std::size_t>(local_rank)].problem = problem;
  std::vector<OutputSource> sources;
  for (std::size_t n = 0; n < launched.size(); ++n) {
    const auto i = static_cast<std::size_t>(local_ranks[n]);
    auto& process = launched[n].process;
    if (!process) {
      started.workers[i].problem = why_not_executed(config_.program.file, process.error());
      continue;
    }
    spdlog::debug("round={} local_rank={} pid={} started", round.number, i, process->pid);
    handles_->watch(context_, i, std::move(process->pidfd), [this, i] { on_worker_exit(i); });
    started.workers[i] = {process->pid, Clock::now(), ""};
    for (OutputSource& source : launched[n].sources) sources.push_back(std::move(source));
  }
  const ErrorCode no_store = store_.offer(round.group_rank == 0);
  watches_.begin_round(sources);
  const std::string unreadable = output_.watch(std::move(sources), !round.keep.empty());
  for (const int kept : round.keep)
    begin_round_in_page(
        progress_file(config_, workers()[static_cast<std::size_t>(kept)].start, kept),
        local_.ledger.reached_step());
  // Before the machine may ask for their end again.
  local_.workers.begin_round([&](int local_rank) {
    const StartRound& start = workers()[static_cast<std::size_t>(local_rank)].start;
    return launch_.environment_of_kept(round, start, local_rank, local_.socket_name());
  });
  handle(std::move(started));
  local_.workers.workers_started();
  if (!unreadable.empty()) {
    handle(CannotGoOn{"the workers' output cannot be read: " + unreadable});
  } else if (no_store) {
    handle(CannotGoOn{"the workers have no store: " + why_no_descriptor(no_store)});
  }
}

/// Those that are to end with their round.
void Agent::signal_workers(int signal) {
  for (const WorkerRecord& worker : workers())
    if (worker.gets_signals()) kill(-worker.pid, signal);
  const NodeRound* round = machine().round();
  const bool is_fenced = config_.rendezvous && round != nullptr && round->stop && round->stop->kill;
  if (signal != SIGKILL || !is_fenced) return;
  // All of it is sent SIGKILL and runs no code of its own any more. How long the kernel needs to
  // end it, a GPU driver a second or more, is no reason for the warden to end this agent, too. The
  // process groups have it already, and nothing is as urgent as the rest: no turns.
  descendants_.send_kill();
  link_.lease(boot_clock_now() + config_.stop.kill_timeout);
}

/// A crash shows only when it is over: cores are written and much memory is freed first. A worker
/// in the middle of that did not crash because we stopped it. For one that is suspended the others
/// have waited, and it cannot act on its stop signal.
void Agent::stop_workers(const StopWorkers& action) {
  ConditionsSeen seen;
  for (const WorkerRecord& worker : workers())
    seen.workers.push_back(worker.running() ? machine::condition_of(worker.pid)
                                            : machine::ChildCondition{});
  if (action.signal != SIGKILL)
    write_stop_reasons(config_, *machine().round(),
                       action.may_save ? StopReason::save : StopReason::now);
  signal_workers(action.signal);
  for (std::size_t i = 0; i < workers().size(); ++i) {
    const WorkerRecord& worker = workers()[i];
    if (worker.keeping == Keeping::asked && !seen.workers[i].suspended)
      local_.workers.interrupt(static_cast<int>(i), !action.may_save,
                               machine().round()->stop->reason);
    if (worker.keeping == Keeping::asked && seen.workers[i].suspended)
      kill(-worker.pid, action.signal);
    const bool held = action.resume || seen.workers[i].suspended;
    if (held && worker.running()) kill(-worker.pid, SIGCONT);
  }
  handle(std::move(seen));
}

void Agent::on_child() {
  reap_strangers();
  if (machine().waits_for_leftovers()) handle(LeftoversSeen{descendants_.any()});
}

void Agent::reap_strangers() {
  // Children that are no workers: what workers left behind and we, as subreaper, inherited. Exits
  // are looked at, not taken: a worker's belongs to its pidfd, and the pidfd's place in the batch
  // of events is the worker's place in the order of deaths.
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    bool worker = false;
    for (std::size_t i = 0; i < workers().size(); ++i) {
      if (workers()[i].pid != info.si_pid || workers()[i].exit) continue;
      worker = true;
      // A kernel without pidfds, or a worker that had died before its tracer let it go.
      if (!handles_->exits[i]) on_worker_exit(i);
    }
    // Its pidfd is ready too; we come back after it.
    if (worker) return;
    const bool is_ours = watches_.child_ended(info.si_pid) || checks_.child_ended(info.si_pid) ||
                         launch_.child_ended(info.si_pid) ||
                         local_.answers.child_ended(info.si_pid) ||
                         local_.commands.child_ended(info.si_pid);
    if (is_ours) continue;
    machine::reap(info.si_pid);
    shared_memory_.note_end(info.si_pid);
  }
}

void Agent::on_worker_exit(std::size_t local_rank) {
  auto& seen = handles_->seen_exits;
  const auto is_this = [local_rank](const auto& exit) { return exit.local_rank == local_rank; };
  // Without a pidfd each SIGCHLD leads here.
  if (std::any_of(seen.begin(), seen.end(), is_this)) return;
  const WorkerGroup& group = machine().round()->group;
  const pid_t pid = group.workers()[local_rank].pid;
  const auto ended = machine::exit_of(pid);
  const bool has_failed = ended && !ended->success() && !group.stopping();
  // What it has left of its group holds its GPU. Python's resource tracker is left to clean up. Not
  // later: once the worker is reaped, its number may be another group's.
  if (has_failed) kill(-pid, SIGTERM);
  // The end of the round was before, and the next one is near.
  if (group.workers()[local_rank].waits() && group.stopping()) kill(-pid, SIGKILL);
  seen.push_back({local_rank, Clock::now(), has_failed, !has_failed});
  // Before the others are stopped for it: an exception that is read after that counts as a
  // consequence of the stop, and its worker could not be the culprit.
  if (has_failed) {
    output_.when_read([this, is_this] {
      auto& exits = handles_->seen_exits;
      const auto read = std::find_if(exits.begin(), exits.end(), is_this);
      if (read != exits.end()) read->is_read = true;
      report_exits();
    });
  }
  report_exits();
}

void Agent::report_exits() {
  auto& seen = handles_->seen_exits;
  while (!seen.empty() && seen.front().is_read) {
    const auto first = seen.front();
    seen.pop_front();
    report_exit(first);
  }
}

void Agent::report_exit(const RoundHandles::SeenExit& seen) {
  const NodeRound& round = *machine().round();
  const pid_t pid = round.group.workers()[seen.local_rank].pid;
  const auto reaped = machine::reap(pid);
  // It has died and cannot be reaped while a debugger holds it; SIGCHLD tells when that lets go.
  handles_->exits[seen.local_rank].reset();
  if (!reaped) return;
  local_.workers.forget(static_cast<int>(seen.local_rank));
  const WorkerRecord& worker = round.group.workers()[seen.local_rank];
  if (worker.waits() && machine().state() == NodeState::waiting)
    remove_files_of_worker(config_, worker.start, static_cast<int>(seen.local_rank));
  shared_memory_.note_end(pid);
  watches_.worker_ended(pid);
  local_.answers.worker_ended(pid);
  spdlog::info("round={} local_rank={} pid={} {}", round.round.number, seen.local_rank, pid,
               describe(reaped->exit));
  WorkerExited exited{.local_rank = static_cast<int>(seen.local_rank),
                      .exit = reaped->exit,
                      .used = reaped->used,
                      .at = seen.at};
  if (seen.has_failed) {
    const std::string message = output_.last_message(
        round.group.workers()[seen.local_rank].start.number, exited.local_rank, round.started_at);
    exited.lost_a_peer = !victim_phrase(message).empty();
    exited.timed_out = is_time_out(message);
  }
  handle(std::move(exited));
  reap_strangers();
}

void Agent::die_with_warden() {
  local_.workers.end_all();
  local_.commands.stop();
  launch_.stop();
  if (descendants_.kill_silently(config_.stop.kill_timeout).empty()) membership_->end_in_order();
  shared_memory_.end_round(workers());
  while (!shared_memory_.remove_next()) {
  }
  std::error_code ignored;
  if (!config_.run_directory.empty()) std::filesystem::remove_all(config_.run_directory, ignored);
  _exit(128 + SIGKILL);
}

}  // namespace ddprun::agent
