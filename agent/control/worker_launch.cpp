#include "agent/control/worker_launch.hpp"

#include <memory>
#include <utility>

namespace ddprun::agent {

WorkerLaunch::WorkerLaunch(boost::asio::io_context& context, const AgentConfig& config,
                           const machine::UserState& user, int cgroup, Notice notice)
    : context_(context),
      config_(config),
      user_(user),
      starter_(config, cgroup),
      notice_(std::move(notice)) {}

void WorkerLaunch::begin() {
  const ProgramSettings& program = config_.program;
  if (program.preload.empty()) return;
  importer_.emplace(context_, user_,
                    Importer::Events{notice_, [this] {
                                       if (const auto ready = std::exchange(ready_, nullptr))
                                         ready();
                                     }});
  importer_->start({program.file, config_.workers.front().argv, starter_.common_environment(),
                    program.preload, config_.run_directory + "/preload"});
}

void WorkerLaunch::when_ready(std::function<void()> ready) {
  if (!importer_ || importer_->is_settled()) return ready();
  ready_ = std::move(ready);
}

void WorkerLaunch::launch(const proto::Round& round, const std::vector<int>& local_ranks,
                          const std::string& job_socket, Launched launched) {
  if (local_ranks.empty()) return launched({});  // all go on from the round before
  if (!importer_ || !importer_->can_fork()) {
    std::vector<LaunchedWorker> workers;
    for (const int local_rank : local_ranks)
      workers.push_back(execute(starter_.prepare(round, local_rank, job_socket)));
    return launched(std::move(workers));
  }
  auto prepared = std::make_shared<std::vector<PreparedWorker>>();
  std::vector<machine::SpawnRequest> requests;
  for (const int local_rank : local_ranks) {
    prepared->push_back(starter_.prepare(round, local_rank, job_socket));
    requests.push_back(prepared->back().request);
  }
  importer_->fork(
      requests, [this, prepared, launched = std::move(launched)](std::vector<ForkedWorker> forked) {
        forked.resize(prepared->size());
        std::vector<LaunchedWorker> workers;
        for (std::size_t i = 0; i < forked.size(); ++i) {
          PreparedWorker& worker = (*prepared)[i];
          if (forked[i].process.pid > 0) {
            workers.push_back({std::move(forked[i].process), std::move(worker.sources)});
          } else {
            workers.push_back(execute(std::move(worker)));
          }
        }
        launched(std::move(workers));
      });
}

LaunchedWorker WorkerLaunch::execute(PreparedWorker prepared) const {
  auto process = machine::spawn(prepared.request, user_);
  if (!process) prepared.sources.clear();
  return {std::move(process), std::move(prepared.sources)};
}

void WorkerLaunch::hurry() {
  if (importer_) importer_->abandon_forks();
}

void WorkerLaunch::stop() {
  if (importer_) importer_->stop();
}

}  // namespace ddprun::agent
