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

void WorkerLaunch::launch(const proto::Round& round, const std::string& job_socket,
                          Launched launched) {
  auto prepared = std::make_shared<std::vector<PreparedWorker>>();
  for (std::size_t i = 0; i < config_.workers.size(); ++i)
    prepared->push_back(starter_.prepare(round, static_cast<int>(i), job_socket));
  if (!importer_ || !importer_->can_fork()) return execute(*prepared, {}, launched);
  std::vector<machine::SpawnRequest> requests;
  for (const PreparedWorker& worker : *prepared) requests.push_back(worker.request);
  importer_->fork(
      requests, [this, prepared, launched = std::move(launched)](std::vector<ForkedWorker> forked) {
        execute(*prepared, std::move(forked), launched);
      });
}

/// All that were not forked.
void WorkerLaunch::execute(std::vector<PreparedWorker>& prepared, std::vector<ForkedWorker> forked,
                           const Launched& launched) {
  forked.resize(prepared.size());
  std::vector<LaunchedWorker> workers;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (forked[i].process.pid > 0) {
      workers.push_back({std::move(forked[i].process), std::move(prepared[i].sources)});
      continue;
    }
    auto process = machine::spawn(prepared[i].request, user_);
    if (!process) prepared[i].sources.clear();
    workers.push_back({std::move(process), std::move(prepared[i].sources)});
  }
  launched(std::move(workers));
}

void WorkerLaunch::hurry() {
  if (importer_) importer_->abandon_forks();
}

void WorkerLaunch::stop() {
  if (importer_) importer_->stop();
}

}  // namespace ddprun::agent
