#include "agent/worker_starter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/streams/log_files.hpp"
#include "agent/worker_environment.hpp"

namespace ddprun::agent {

WorkerStarter::WorkerStarter(const AgentConfig& config, const UserState& user, int cgroup)
    : config_(config),
      user_(user),
      cgroup_(cgroup),
      stdout_filters_(std::make_shared<const std::vector<std::string>>(config.stdout_filters)),
      stderr_filters_(std::make_shared<const std::vector<std::string>>(config.stderr_filters)),
      null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
  for (char** entry = environ; *entry != nullptr; ++entry)
    inherited_environment_.emplace_back(*entry);
}

WorkerStarter::WorkerStream WorkerStarter::make_stream(const StreamSettings& settings, int fd,
                                                       const proto::Round& round,
                                                       int local_rank) const {
  switch (settings.mode) {
    case StreamMode::inherit:
      return {fd, {}, {}};
    case StreamMode::null:
      return {null_.get(), {}, {}};
    case StreamMode::file:
      return log_file_stream(fd, round, local_rank);
    case StreamMode::pty:
    case StreamMode::pipe:
      break;
  }
  const bool wants_terminal = settings.mode == StreamMode::pty;
  auto pair = wants_terminal ? make_pseudo_terminal(fd) : make_pipe();
  const bool terminal = wants_terminal && pair.has_value();
  if (!pair && wants_terminal) pair = make_pipe();  // no pseudo-terminals here
  if (!pair) {
    spdlog::warn("local rank {} writes straight to our own output: {}", local_rank,
                 pair.error().message());
    return {fd, {}, {}};
  }
  OutputSource source;
  source.fd = std::move(pair->ours);
  source.round = round.number;
  source.local_rank = local_rank;
  source.standard_error = fd == STDERR_FILENO;
  source.terminal = terminal;
  source.prefix = line_prefix(config_, round, local_rank);
  source.to_console = settings.to_console;
  if (settings.to_file) add_files(source, round);
  const int workers = pair->workers.get();
  return {workers, std::move(pair->workers), std::move(source)};
}

/// A log that can't be written does not keep the worker from running: its output comes here then.
WorkerStarter::WorkerStream WorkerStarter::log_file_stream(int fd, const proto::Round& round,
                                                           int local_rank) const {
  const std::string path =
      stream_file(config_.log_folder, round.restart_count, local_rank, fd == STDERR_FILENO);
  auto file = open_log_file(path);
  if (!file) {
    spdlog::warn("local rank {} writes to our own output: {}: {}", local_rank, path,
                 file.error().message());
    return {fd, {}, {}};
  }
  const int number = file->get();
  return {number, std::move(*file), {}};
}

void WorkerStarter::add_files(OutputSource& source, const proto::Round& round) const {
  const auto open_target = [](const std::string& path) {
    auto file = open_log_file(path);
    if (file) return LogTarget::file(std::move(*file));
    spdlog::warn("no log: {}: {}", path, file.error().message());
    return LogTarget{};
  };
  source.file = open_target(stream_file(config_.log_folder, round.restart_count, source.local_rank,
                                        source.standard_error));
  source.filters = source.standard_error ? stderr_filters_ : stdout_filters_;
  if (source.filters->empty() || !source.to_console) return;
  source.filtered_file =
      open_target(attempt_folder(config_.log_folder, round.restart_count) +
                  (source.standard_error ? "/filtered_stderr.log" : "/filtered_stdout.log"));
}

Result<SpawnedProcess> WorkerStarter::start(const proto::Round& round, int local_rank,
                                            const std::string& job_socket,
                                            std::vector<OutputSource>& sources) {
  const bool gets_stdin = config_.standard_input == StdinMode::all ||
                          (config_.standard_input == StdinMode::rank0 && local_rank == 0);
  const WorkerSettings& settings = config_.workers[static_cast<std::size_t>(local_rank)];
  if (!config_.log_folder.empty()) {
    if (auto made = make_worker_folder(config_.log_folder, round.restart_count, local_rank); !made)
      spdlog::warn("no logs of local rank {}: {}", local_rank, made.error().message());
  }
  WorkerStream out = make_stream(settings.standard_output, STDOUT_FILENO, round, local_rank);
  WorkerStream err = make_stream(settings.standard_error, STDERR_FILENO, round, local_rank);
  SpawnRequest request;
  request.file = config_.file;
  request.argv = settings.argv;
  request.cpus = settings.cpus;
  request.cgroup = cgroup_;
  request.environment = merge_environment(
      inherited_environment_,
      worker_environment(config_, round, local_rank, job_socket, inherited_environment_));
  request.stdin_fd = gets_stdin ? STDIN_FILENO : null_.get();
  request.stdout_fd = out.fd;
  request.stderr_fd = err.fd;
  auto process = spawn(request, user_);
  if (!process) return process.error();
  for (WorkerStream* stream : {&out, &err}) {
    if (stream->ours.fd) sources.push_back(std::move(stream->ours));
  }
  return process;
}

}  // namespace ddprun::agent
