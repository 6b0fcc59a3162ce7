#include "agent/worker_starter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/worker_environment.hpp"

namespace ddprun::agent {

WorkerStarter::WorkerStarter(const AgentConfig& config, const UserState& user)
    : config_(config), user_(user), null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
  for (char** entry = environ; *entry != nullptr; ++entry)
    inherited_environment_.emplace_back(*entry);
}

WorkerStarter::WorkerStream WorkerStarter::make_stream(StreamMode mode, int fd,
                                                       const proto::Round& round,
                                                       int local_rank) const {
  if (mode == StreamMode::inherit) return {fd, {}, {}};
  auto pair = mode == StreamMode::pty ? make_pseudo_terminal(fd) : make_pipe();
  const bool terminal = mode == StreamMode::pty && pair.has_value();
  if (!pair && mode == StreamMode::pty) pair = make_pipe();  // no pseudo-terminals here
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
  source.prefix = fmt::format("[rank{}] ", round.first_rank + local_rank);
  const int workers = pair->workers.get();
  return {workers, std::move(pair->workers), std::move(source)};
}

Result<SpawnedProcess> WorkerStarter::start(const proto::Round& round, int local_rank,
                                            const std::string& job_socket,
                                            std::vector<OutputSource>& sources) {
  const bool gets_stdin = config_.standard_input == StdinMode::all ||
                          (config_.standard_input == StdinMode::rank0 && local_rank == 0);
  WorkerStream out = make_stream(config_.standard_output, STDOUT_FILENO, round, local_rank);
  WorkerStream err = make_stream(config_.standard_error, STDERR_FILENO, round, local_rank);
  SpawnRequest request;
  request.file = config_.file;
  request.argv = config_.workers[static_cast<std::size_t>(local_rank)].argv;
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
