#include "agent/workers/open_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace ddprun::agent {
namespace {

// What the agent itself opens: its threads' epolls and eventfds, the listening socket, our own
// output opened once more, both ends of the pipes of the worker that is being started; at the end
// walks through /proc, error files, a helper program's pipes.
constexpr std::uint64_t kAgentFiles = 32;
constexpr std::uint64_t kStoreClientsLeast = 8;  // a part of them
// Connections of strangers at the rendezvous; as many as it takes where nothing is scarce.
constexpr std::uint64_t kStrangersLeast = 2;
constexpr std::uint64_t kStrangersMost = 1'024;
// With so many more than needed, those that are open are not counted.
constexpr std::uint64_t kPlenty = 512;

std::uint64_t files_of(const StreamSettings& stream, bool may_be_hidden) {
  switch (stream.mode) {
    case StreamMode::pty:
    case StreamMode::pipe:
    case StreamMode::copy:
      return stream.to_file ? 2 : 1;
    case StreamMode::inherit:
      return may_be_hidden ? 1 : 0;
    case StreamMode::file:
    case StreamMode::null:
      break;
  }
  return 0;
}

/// How many of the connections for which there are descriptors strangers may take.
std::uint64_t strangers_share(std::uint64_t connections) {
  return std::clamp(connections / 4, kStrangersLeast, kStrangersMost);
}

/// Without opening one.
std::uint64_t count_open_files(std::uint64_t limit) {
  std::uint64_t count = 0;
  for (std::uint64_t fd = 0; fd < limit; ++fd) count += fcntl(static_cast<int>(fd), F_GETFD) != -1;
  return count;
}

}  // namespace

std::uint64_t raise_open_files_limit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  if (files.rlim_cur < files.rlim_max) {
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) return before;
  }
  return files.rlim_cur;
}

bool reads_output(const AgentConfig& config) {
  const bool hidden = !config.logs.shown_ranks.ranges.empty();
  return std::any_of(config.workers.begin(), config.workers.end(), [hidden](const auto& worker) {
    return files_of(worker.standard_output, hidden) + files_of(worker.standard_error, hidden) > 0;
  });
}

std::uint64_t open_files_needed(const AgentConfig& config) {
  const bool some_hidden = !config.logs.shown_ranks.ranges.empty();
  std::uint64_t files = kAgentFiles;
  for (const WorkerSettings& worker : config.workers) {
    files += 1 + files_of(worker.standard_output, some_hidden) +  // 1: its pidfd
             files_of(worker.standard_error, some_hidden);
  }
  return files;
}

OpenFiles open_files_for(const AgentConfig& config, std::uint64_t limit) {
  std::uint64_t needed = open_files_needed(config);
  if (limit >= needed + kPlenty) return {{}, limit - needed - kPlenty, limit};
  needed += count_open_files(limit);
  if (needed > limit) {
    return {fmt::format("{} workers take {} open files here, and the limit is {}: raise it (ulimit "
                        "-n), or start fewer workers",
                        config.workers.size(), needed, limit),
            0, limit};
  }
  return {{}, limit - needed + kStoreClientsLeast, limit};
}

ConnectionShares connection_shares(const AgentConfig& config, const OpenFiles& files) {
  const auto agents = static_cast<std::uint64_t>(config.job.max_nodes) - 1;
  ConnectionShares shares;
  shares.newcomers = strangers_share(files.store_clients);
  if (config.rendezvous && config.rendezvous->one_port)
    shares.parked = strangers_share(files.store_clients);
  const std::uint64_t taken = agents + shares.newcomers + shares.parked;
  shares.store_clients = files.store_clients - std::min(files.store_clients / 2, taken);
  return shares;
}

std::string too_few_for_nodes(const AgentConfig& config, const OpenFiles& files) {
  const auto nodes = static_cast<std::uint64_t>(config.job.max_nodes);
  const std::uint64_t agents = nodes - 1;
  const ConnectionShares shares = connection_shares(config, files);
  const std::uint64_t strangers = shares.newcomers + shares.parked;
  const std::uint64_t room = files.store_clients - std::min(files.store_clients, strangers);
  const std::uint64_t workers = config.store.in_agent ? nodes * config.workers.size() : 0;
  if (room >= agents + workers) return "";
  return fmt::format(
      "this node has the rendezvous{} and may open {} files, about {} of them for connections; {} "
      "nodes need about {}: raise the limit (ulimit -n)",
      workers > 0 ? " and the workers' store" : "", files.limit, room, nodes, agents + workers);
}

}  // namespace ddprun::agent
