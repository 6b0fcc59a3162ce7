// How a round starts on this node: its place is prepared, its workers start and are watched.
#include <algorithm>
#include <climits>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "base/no_descriptor.hpp"
#include "machine/processes/exec_error.hpp"

namespace ddprun::agent {

void Agent::prepare() {
  std::string problem = open_files_.problem;
  if (problem.empty()) problem = output_.prepare();
  if (problem.empty()) problem = store_.prepare();
  store_.warn_of_few_files();
  const RoundStore::Place place = store_.place();
  const auto clients = std::min<std::uint64_t>(store_.clients_max(), INT_MAX);
  handle(Prepared{place.addr, place.port, static_cast<int>(clients),
                  nodes_ != nullptr && nodes_->is_host(), std::move(problem)});
}

void Agent::start_workers() {
  const NodeRound& round = *machine().round();
  if (nodes_ != nullptr) nodes_->keep_lease();
  if (result_.rounds.empty() && !config_.start_note.empty()) notice(config_.start_note);
  if (round.round.last_culprit && !result_.rounds.empty())
    result_.rounds.back().culprit = round.round.last_culprit;
  handles_.emplace();
  shared_memory_.begin_round(handles_->wall_started_at);
  handles_->exits.resize(config_.workers.size());
  WorkersStarted started;
  std::vector<OutputSource> sources;
  for (std::size_t i = 0; i < config_.workers.size(); ++i)
    started.workers.push_back(start_worker(static_cast<int>(i), sources));
  const ErrorCode no_store = store_.offer(round.round.group_rank == 0);
  watches_.begin_round(sources);
  const std::string unreadable = output_.watch(std::move(sources));
  handle(std::move(started));
  if (!unreadable.empty()) {
    handle(CannotGoOn{"the workers' output cannot be read: " + unreadable});
  } else if (no_store) {
    handle(CannotGoOn{"the workers have no store: " + why_no_descriptor(no_store)});
  }
}

StartedWorker Agent::start_worker(int local_rank, std::vector<OutputSource>& sources) {
  const proto::Round& round = machine().round()->round;
  auto process = starter_.start(round, local_rank, socket_ ? socket_->name() : "", sources);
  if (!process) {
    const std::string why = machine::explain_exec_error(process.error().value(), config_.file);
    return {0,
            {},
            fmt::format("cannot execute {}: {}{}{}", config_.file, process.error().message(),
                        why.empty() ? "" : "; ", why)};
  }
  spdlog::debug("round={} local_rank={} pid={} started", round.number, local_rank, process->pid);
  if (process->pidfd) {  // without one, or where it can't be watched, SIGCHLD tells
    auto& exit = handles_->exits[static_cast<std::size_t>(local_rank)];
    ErrorCode failed;
    exit.emplace(context_).assign(process->pidfd.get(), failed);
    if (failed) {
      exit.reset();
    } else {
      static_cast<void>(process->pidfd.release());  // Asio closes it
      exit->async_wait(kReadable, [this, local_rank](ErrorCode ec) {
        if (!ec) on_worker_exit(static_cast<std::size_t>(local_rank));
      });
    }
  }
  return {process->pid, Clock::now(), ""};
}

}  // namespace ddprun::agent
