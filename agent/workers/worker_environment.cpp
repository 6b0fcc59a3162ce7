#include "agent/workers/worker_environment.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "agent/streams/log_file.hpp"
#include "base/describe.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::agent {

namespace env = proto::env;

namespace {

std::string_view name_of(const std::string& entry) {
  return std::string_view(entry).substr(0, entry.find('='));
}

bool has(const std::vector<std::string>& inherited, std::string_view name) {
  return std::any_of(inherited.begin(), inherited.end(),
                     [name](const std::string& entry) { return name_of(entry) == name; });
}

/// `SIGTERM,SIGINT`
std::string signal_names(const std::vector<int>& signals) {
  std::string names;
  for (const int signal : signals) {
    if (!names.empty()) names += ',';
    names += signal_name(signal);
  }
  return names;
}

/// Its debugger would read the end of /dev/null and end the worker, and with it the job.
bool passes_breakpoints(StdinMode mode, int local_rank) {
  return mode == StdinMode::rank0 && !gets_stdin(mode, local_rank);
}

/// Python finds no function of this name: breakpoint() then warns with it, once for each place, and
/// does not stop (PEP 553). No dot: what is before one is imported.
std::string breakpoint_text(int rank) {
  return fmt::format("rank {} does not stop here: it has no stdin (ddprun --stdin=all)", rank);
}

}  // namespace

std::string error_file(const AgentConfig& config, const StartRound& start, int local_rank) {
  if (!config.logs.folder.empty())
    return worker_folder(config.logs.folder, start.restart_count, local_rank) + "/error.json";
  if (config.run_directory.empty()) return {};
  return fmt::format("{}/round_{}_local_rank_{}_error.json", config.run_directory, start.number,
                     local_rank);
}

std::string progress_file(const AgentConfig& config, const StartRound& start, int local_rank) {
  if (config.run_directory.empty()) return {};
  return fmt::format("{}/round_{}_local_rank_{}_progress", config.run_directory, start.number,
                     local_rank);
}

std::string timer_file(const AgentConfig& config) {
  if (!config.timers.watched || !config.timers.file.empty()) return config.timers.file;
  return config.run_directory.empty() ? "" : config.run_directory + "/watchdog_timer";
}

EnvironmentPairs worker_environment(const AgentConfig& config, const proto::Round& round,
                                    const StartRound& start, int local_rank,
                                    const std::string& job_socket,
                                    const std::vector<std::string>& inherited) {
  const WorkerSettings& worker = config.workers.at(static_cast<std::size_t>(local_rank));
  const auto number = [](auto value) { return fmt::format("{}", value); };
  EnvironmentPairs set{
      {env::kLocalRank, number(config.environment.virtual_local_rank ? 0 : local_rank)},
      {env::kRank, number(round.first_rank + local_rank)},
      {env::kGroupRank, number(round.group_rank)},
      {env::kRoleRank, number(round.first_role_rank + local_rank)},
      {env::kRoleName, config.node.role},
      {env::kLocalWorldSize, number(config.workers.size())},
      {env::kWorldSize, number(round.world_size)},
      {env::kGroupWorldSize, number(round.group_world_size)},
      {env::kRoleWorldSize, number(round.role_world_size)},
      {env::kMasterAddr, round.master_addr},
      {env::kMasterPort, number(round.master_port)},
      {env::kRestartCount, number(round.restart_count)},
      {env::kMaxRestarts, number(round.max_restarts)},
      {env::kRunId, config.run_id},
      {env::kUseAgentStore, config.store.in_agent ? "True" : "False"},
      {env::kErrorFile, error_file(config, start, local_rank)},
      {env::kRound, number(round.number)},
      {env::kEpoch, number(round.epoch)},
      {env::kProgressFile, progress_file(config, start, local_rank)},
  };
  if (round.kept_workers > 0) set.emplace_back(env::kSourceRank, number(round.source_rank));
  // As if every node had as many workers as this one.
  if (config.job.min_nodes < config.job.max_nodes) {
    const int most = config.job.max_nodes * static_cast<int>(config.workers.size());
    set.emplace_back(env::kMaxWorldSize, number(std::max(most, round.world_size)));
  }
  if (!has(inherited, env::kNcclAsyncErrorHandling))
    set.emplace_back(env::kNcclAsyncErrorHandling, "1");
  set.emplace_back(env::kSignalsToHandle, signal_names(config.stop.signals));
  for (auto& pair : lasting_environment(config, local_rank)) set.push_back(std::move(pair));
  if (passes_breakpoints(config.streams.standard_input, local_rank) &&
      !has(inherited, env::kPythonBreakpoint)) {
    set.emplace_back(env::kPythonBreakpoint, breakpoint_text(round.first_rank + local_rank));
  }
  if (worker.visible_devices)
    set.emplace_back(config.environment.devices_variable, *worker.visible_devices);
  // Else CUDA may count GPUs of several kinds in another order than the one that was claimed.
  if (!config.checks.claimed_gpus.empty()) set.emplace_back(env::kCudaDeviceOrder, "PCI_BUS_ID");
  if (const std::string file = timer_file(config); !file.empty())
    set.emplace_back(env::kTimerFile, file);
  if (!job_socket.empty()) set.emplace_back(env::kJobSocket, job_socket);
  return set;
}

EnvironmentPairs lasting_environment(const AgentConfig& config, int local_rank) {
  EnvironmentPairs set;
  const WorkerSettings& worker = config.workers.at(static_cast<std::size_t>(local_rank));
  if (worker.omp_threads)
    set.emplace_back(env::kOmpNumThreads, fmt::format("{}", *worker.omp_threads));
  if (config.environment.python_unbuffered) set.emplace_back(env::kPythonUnbuffered, "1");
  return set;
}

std::vector<std::string> merge_environment(const std::vector<std::string>& inherited,
                                           const EnvironmentPairs& set) {
  // Done for every worker of every round: a search, not a scan, for each inherited name.
  std::vector<std::string_view> names;
  names.reserve(set.size());
  for (const auto& [name, value] : set) names.push_back(name);
  std::sort(names.begin(), names.end());
  std::vector<std::string> merged;
  merged.reserve(inherited.size() + set.size());
  for (const std::string& entry : inherited) {
    if (!std::binary_search(names.begin(), names.end(), name_of(entry))) merged.push_back(entry);
  }
  for (const auto& [name, value] : set) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace ddprun::agent
