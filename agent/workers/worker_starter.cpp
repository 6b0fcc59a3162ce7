#include "agent/workers/worker_starter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "agent/streams/log_file.hpp"
#include "agent/terminal/stream_pair.hpp"
#include "agent/terminal/terminal_size.hpp"
#include "agent/terminal/terminal_text.hpp"
#include "agent/workers/worker_environment.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::agent {
namespace {

/// It is about a round of another job, whose worker has started us.
bool is_of_a_round(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name == proto::env::kSourceRank || name == proto::env::kReachedStep;
}

}  // namespace

WorkerStarter::WorkerStarter(const AgentConfig& config, int cgroup)
    : config_(config),
      cgroup_(cgroup),
      stdout_filters_(std::make_shared<const std::vector<std::string>>(config.logs.stdout_filters)),
      stderr_filters_(std::make_shared<const std::vector<std::string>>(config.logs.stderr_filters)),
      one_console_(same_output(STDOUT_FILENO, STDERR_FILENO)),
      null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!is_of_a_round(*entry)) inherited_environment_.emplace_back(*entry);
}

/// Global ranks are known only in a round.
StreamSettings settings_of_stream(const AgentConfig& config, int local_rank, bool standard_error,
                                  int rank) {
  const WorkerSettings& worker = config.workers[static_cast<std::size_t>(local_rank)];
  StreamSettings settings = standard_error ? worker.standard_error : worker.standard_output;
  if (!settings.to_console || config.logs.shown_ranks.has(rank)) return settings;
  settings.to_console = false;
  const bool ours = settings.mode == StreamMode::pty || settings.mode == StreamMode::pipe ||
                    settings.mode == StreamMode::copy || settings.mode == StreamMode::inherit;
  if (ours && !settings.to_file)
    settings.mode = standard_error ? StreamMode::pipe : StreamMode::null;
  return settings;
}

/// Where both go to the same place and no file wants them apart, only one pipe or terminal for both
/// keeps their order.
bool WorkerStarter::share_a_stream(const StreamSettings& out, const StreamSettings& err) const {
  const bool ours =
      out.mode == StreamMode::pty || out.mode == StreamMode::pipe || out.mode == StreamMode::copy;
  return one_console_ && ours && out.mode == err.mode && out.to_console && err.to_console &&
         !out.to_file && !err.to_file;
}

WorkerStarter::WorkerStream WorkerStarter::make_stream(const StreamSettings& settings, int fd,
                                                       const proto::Round& round, int local_rank) {
  switch (settings.mode) {
    case StreamMode::inherit:
      return {fd, {}, {}};
    case StreamMode::null:
      return {null_.get(), {}, {}};
    case StreamMode::file:
      return log_file_stream(fd, round, local_rank);
    case StreamMode::pty:
    case StreamMode::pipe:
    case StreamMode::copy:
      break;
  }
  const bool wants_terminal = settings.mode == StreamMode::pty;
  LinePrefix prefix(config_.streams.prefix_template, {.rank = round.first_rank + local_rank,
                                                      .local_rank = local_rank,
                                                      .round = static_cast<int>(round.number),
                                                      .role = config_.node.role,
                                                      .host = config_.node.name});
  const int columns = text_columns(prefix.plain(std::chrono::system_clock::now()));
  auto pair = wants_terminal ? make_pseudo_terminal(fd, columns) : make_stream_pipe();
  const bool terminal = wants_terminal && pair.has_value();
  if (!pair && wants_terminal) pair = make_stream_pipe();  // no pseudo-terminals here
  if (!pair) {
    spdlog::warn("local rank {} writes directly to ddprun's output: {}", local_rank,
                 pair.error().message());
    return {fd, {}, {}};
  }
  OutputSource source;
  source.fd = std::move(pair->ours);
  source.round = round.number;
  source.local_rank = local_rank;
  source.rank = round.first_rank + local_rank;
  source.standard_error = fd == STDERR_FILENO;
  source.terminal = terminal;
  source.prefix = std::move(prefix);
  source.reads_input = gets_stdin(config_.streams.standard_input, local_rank);
  source.coloured =
      source.standard_error ? config_.streams.colour_stderr : config_.streams.colour_stdout;
  if (source.standard_error ? config_.streams.fold_stderr : config_.streams.fold_stdout)
    source.folds_as = round.first_rank + local_rank;
  source.to_console = settings.to_console;
  source.verbatim = settings.mode == StreamMode::copy;
  if (settings.to_file) add_files(source, round);
  const int workers = pair->workers.get();
  return {workers, std::move(pair->workers), std::move(source)};
}

/// A log that can't be written does not keep the worker from running: its output comes here then.
WorkerStarter::WorkerStream WorkerStarter::log_file_stream(int fd, const proto::Round& round,
                                                           int local_rank) const {
  const std::string path =
      stream_file(config_.logs.folder, round.restart_count, local_rank, fd == STDERR_FILENO);
  auto file = open_log_file(path);
  if (!file) {
    spdlog::warn("local rank {} writes to our own output: {}: {}", local_rank, path,
                 file.error().message());
    return {fd, {}, {}};
  }
  const int number = file->get();
  return {number, std::move(*file), {}};
}

std::shared_ptr<LogFile> WorkerStarter::open_file(const std::string& path) const {
  auto file = LogFile::open(path, config_.logs.rotation);
  if (file) return std::move(*file);
  spdlog::warn("no log: {}: {}", path, file.error().message());
  return nullptr;
}

void WorkerStarter::add_files(OutputSource& source, const proto::Round& round) {
  source.file = open_file(stream_file(config_.logs.folder, round.restart_count, source.local_rank,
                                      source.standard_error));
  if (!source.file) source.to_console = true;  // rather here than nowhere
  source.filters = source.standard_error ? stderr_filters_ : stdout_filters_;
  if (source.filters->empty() || !source.to_console) return;
  const std::string path =
      attempt_folder(config_.logs.folder, round.restart_count) +
      (source.standard_error ? "/filtered_stderr.log" : "/filtered_stdout.log");
  source.filtered_file =
      filtered_files_.get(path, [this](const std::string& missing) { return open_file(missing); });
}

void WorkerStarter::add_to_environment(const std::string& name, const std::string& value) {
  const std::string begin = name + "=";
  const bool has_it =
      std::any_of(inherited_environment_.begin(), inherited_environment_.end(),
                  [&begin](const std::string& entry) { return entry.starts_with(begin); });
  if (!has_it) inherited_environment_.push_back(begin + value);
}

std::vector<std::string> WorkerStarter::common_environment() const {
  return merge_environment(inherited_environment_, lasting_environment(config_, 0));
}

EnvironmentPairs WorkerStarter::environment_of_kept(const proto::Round& round,
                                                    const StartRound& start, int local_rank,
                                                    const std::string& job_socket) const {
  return worker_environment(config_, round, start, local_rank, job_socket, inherited_environment_);
}

PreparedWorker WorkerStarter::prepare(const proto::Round& round, int local_rank,
                                      const std::string& job_socket) {
  const WorkerSettings& settings = config_.workers[static_cast<std::size_t>(local_rank)];
  if (!config_.logs.folder.empty()) {
    if (auto made = make_worker_folder(config_.logs.folder, round.restart_count, local_rank); !made)
      spdlog::warn("no logs of local rank {}: {}", local_rank, made.error().message());
  }
  const int rank = round.first_rank + local_rank;
  const StreamSettings out_settings = settings_of_stream(config_, local_rank, false, rank);
  const StreamSettings err_settings = settings_of_stream(config_, local_rank, true, rank);
  WorkerStream err = make_stream(err_settings, STDERR_FILENO, round, local_rank);
  WorkerStream out;
  if (err.ours.fd && share_a_stream(out_settings, err_settings)) {
    err.ours.both = true;
    out.fd = err.fd;
  } else {
    out = make_stream(out_settings, STDOUT_FILENO, round, local_rank);
  }
  PreparedWorker prepared;
  machine::SpawnRequest& request = prepared.request;
  request.file = config_.program.file;
  request.argv = settings.argv;
  request.cpus = settings.cpus;
  request.cgroup = cgroup_;
  request.environment = merge_environment(
      inherited_environment_,
      worker_environment(config_, round, round, local_rank, job_socket, inherited_environment_));
  if (reached_step_ > 0)
    request.environment.push_back(fmt::format("{}={}", proto::env::kReachedStep, reached_step_));
  // Some programs ask the terminal at their stdin for its width, and that one is ours.
  const bool has_stdin = gets_stdin(config_.streams.standard_input, local_rank);
  if (err.ours.terminal && has_stdin && isatty(STDIN_FILENO) == 1) {
    const int columns = columns_of(err.ours.fd.get());
    if (columns > 0 && std::getenv("COLUMNS") == nullptr)
      request.environment.push_back("COLUMNS=" + std::to_string(columns));
  }
  request.stdin_fd = has_stdin ? STDIN_FILENO : null_.get();
  request.stdout_fd = out.fd;
  request.stderr_fd = err.fd;
  for (WorkerStream* stream : {&out, &err}) {
    if (stream->workers) prepared.streams.push_back(std::move(stream->workers));
    if (stream->ours.fd) prepared.sources.push_back(std::move(stream->ours));
  }
  return prepared;
}

}  // namespace ddprun::agent
