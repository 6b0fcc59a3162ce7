// How a round starts on this node: its place is prepared, its workers start and are watched.
#include <algorithm>
#include <cerrno>
#include <climits>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/control/agent_loop.hpp"
#include "agent/control/port_reservation.hpp"
#include "base/no_descriptor.hpp"
#include "base/start_thread.hpp"
#include "machine/cgroups/memory_kills.hpp"
#include "machine/processes/exec_error.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kMemoryCountAfter = 50ms;
constexpr auto kCheckKillLimit = 400ms;  // for what a check has left; keep-alives wait meanwhile

std::string not_our_address(const AgentConfig& config, const std::string& host) {
  const std::string& name = config.master_addr.empty() ? host : config.master_addr;
  return fmt::format(
      "{}{} is not an address of this machine; leave out --master-addr and --local-addr", name,
      name == host ? "" : " (" + host + ")");
}

std::string why_not_read(const ErrorCode& refused) {
  return refused.value() == EAGAIN ? why_no_thread(refused) : why_no_descriptor(refused);
}

}  // namespace

void Agent::obey(const Prepare&) {
  std::string problem = prepare_output();
  if (problem.empty()) problem = prepare_meeting_point();
  warn_of_few_files();
  const StorePlace place = meeting_point_.value_or(StorePlace{});
  const auto clients = std::min<std::uint64_t>(store_clients_max(), INT_MAX);
  handle(Prepared{place.addr, place.port, static_cast<int>(clients),
                  nodes_ != nullptr && nodes_->is_host(), std::move(problem)});
}

void Agent::obey(const RunCheck&) { preflight_->start(); }

void Agent::obey(const StopCheck&) { preflight_->stop(); }

void Agent::obey(const AwaitGpus&) { gpu_wait_->start(); }

/// No worker runs here yet: all that is left is the check's.
void Agent::end_check(CheckEnded ended) {
  if (machine::has_children()) descendants_.kill_silently(kCheckKillLimit);
  handle(std::move(ended));
}

/// For which there are descriptors.
std::uint64_t Agent::store_clients_max() const {
  const bool is_shared = nodes_ != nullptr && nodes_->may_host();
  return is_shared ? connection_shares(config_, open_files_).store_clients
                   : open_files_.store_clients;
}

/// Once, where this node has the rendezvous.
void Agent::warn_of_few_files() {
  if (nodes_ == nullptr || !nodes_->may_host() || std::exchange(has_compared_files_, true)) return;
  const std::string line = too_few_for_nodes(config_, open_files_);
  if (!line.empty()) spdlog::warn("{}", line);
}

/// Before the first worker, so that no descriptor is missing in the middle; the thread starts after
/// them. Empty, or why the job can't be run.
std::string Agent::prepare_output() {
  if (!open_files_.problem.empty() || output_ || !reads_output(config_)) return open_files_.problem;
  output_.emplace(
      OutputSettings{.policy = config_.logs.policy, .bar_interval = config_.logs.bar_interval});
  if (output_->usable()) return "";
  output_.reset();
  return "cannot read the workers' output: too few open files; raise the limit (ulimit -n)";
}

/// Where the next round's workers will meet: our listening socket, or a port for rank 0's. Empty,
/// or why there is none.
std::string Agent::prepare_meeting_point() {
  if (meeting_point_) return "";
  std::string host = config_.store_host;
  std::string addr = config_.master_addr;
  if (host.empty() && nodes_ != nullptr) host = nodes_->own_addr();
  if (addr.empty() && nodes_ != nullptr) addr = nodes_->public_addr();
  if (config_.rendezvous && config_.rendezvous->one_port) {
    meeting_point_ = StorePlace{addr, config_.master_port};  // behind the service's port
    return "";
  }
  if (!config_.agent_store) {
    const auto port = config_.master_port != 0 ? Result<std::uint16_t>(config_.master_port)
                                               : reserve_port(host, config_.ports);
    if (port) {
      meeting_point_ = StorePlace{addr, *port};
      return "";
    }
    const bool elsewhere = port.error().value() == EADDRNOTAVAIL;
    return elsewhere ? not_our_address(config_, host)
                     : fmt::format("there is no free port on {}: {}", host, port.error().message());
  }
  auto listener = config_.master_port == 0 && config_.ports
                      ? rdzv::listen_store(host, config_.ports->first, config_.ports->last)
                      : rdzv::listen_store(host, config_.master_port);
  if (listener) {
    meeting_point_ = StorePlace{addr, listener->port};
    listener_.emplace(std::move(*listener));
    return "";
  }
  if (listener.error().value() == EADDRNOTAVAIL) return not_our_address(config_, host);
  if (config_.master_port == 0 && config_.ports) {
    return fmt::format("the store finds no free port from {} to {} on {}: {} (--port-range)",
                       config_.ports->first, config_.ports->last, host, listener.error().message());
  }
  const auto owner = listener.error().value() == EADDRINUSE ? rdzv::port_owner(config_.master_port)
                                                            : std::optional<std::string>();
  return fmt::format(
      "the store cannot listen on {} port {}: {}{}; choose another port, with --master-port or in "
      "--rdzv-endpoint (0: any free one)",
      host, config_.master_port, listener.error().message(),
      owner ? fmt::format(" ({} has it)", *owner) : "");
}

void Agent::obey(const StartWorkers&) {
  const NodeRound& round = *machine_.round();
  if (nodes_ != nullptr) nodes_->keep_lease();
  if (result_.rounds.empty() && !config_.start_note.empty()) notice(config_.start_note);
  suspects_.forget();
  if (round.round.last_culprit && !result_.rounds.empty())
    result_.rounds.back().culprit = round.round.last_culprit;
  handles_.emplace();
  shared_memory_.begin_round(handles_->wall_started_at);
  handles_->exits.resize(config_.workers.size());
  WorkersStarted started;
  std::vector<OutputSource> sources;
  for (std::size_t i = 0; i < config_.workers.size(); ++i)
    started.workers.push_back(start_worker(static_cast<int>(i), sources));
  const ErrorCode no_store = offer_store();
  if (!memory_kills_) count_memory_kills();
  watch_.begin(round.round, round.group, sources);
  ErrorCode refused;
  if (!sources.empty()) refused = quiet_streams_.watch(std::move(sources));
  handle(std::move(started));
  if (refused) {
    handle(CannotGoOn{"the workers' output cannot be read: " + why_not_read(refused)});
  } else if (no_store) {
    handle(CannotGoOn{"the workers have no store: " + why_no_descriptor(no_store)});
  }
}

StartedWorker Agent::start_worker(int local_rank, std::vector<OutputSource>& sources) {
  const proto::Round& round = machine_.round()->round;
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

void Agent::read_output(std::vector<OutputSource> sources) {
  if (const ErrorCode refused = output_->add(std::move(sources)))
    handle(CannotGoOn{"the workers' output cannot be read: " + why_not_read(refused)});
}

/// Its thread starts with its first client.
ErrorCode Agent::offer_store() {
  meeting_point_.reset();
  if (machine_.round()->round.group_rank != 0) listener_.reset();  // another node's is used
  is_store_wanted_ = machine_.round()->round.group_rank == 0;
  hand_over_clients();
  if (!listener_) return {};
  ErrorCode failed;
  handles_->listening.emplace(context_).assign(listener_->fd.get(), failed);
  if (failed) {
    handles_->listening.reset();
    listener_.reset();
    return failed;
  }
  static_cast<void>(listener_->fd.release());  // Asio closes it
  handles_->listening->async_wait(
      kReadable, [this, listener = std::make_shared<rdzv::StoreListener>(std::move(*listener_))](
                     ErrorCode ec) {
        if (ec) return;
        listener->fd.reset(handles_->listening->release());
        start_store(std::move(*listener));
      });
  listener_.reset();
  return {};
}

/// The store is behind the service's port, and its thread starts with its first client.
void Agent::hand_over_clients() {
  const bool has_to_start = is_store_wanted_ && handles_ && !handles_->store && nodes_ != nullptr &&
                            nodes_->has_store_clients();
  if (!has_to_start) return;
  start_store({UniqueFd(), config_.master_addr, config_.master_port});
  if (handles_->store) nodes_->open_store(*handles_->store);
}

void Agent::start_store(rdzv::StoreListener listener) {
  rdzv::StoreSettings settings;
  settings.check_uid = !config_.store_users.any;
  settings.allowed_uids.assign(config_.store_users.uids.begin(), config_.store_users.uids.end());
  settings.connections_max = std::min(settings.connections_max, store_clients_max());
  settings.reset_on_close = true;  // what is left of the old group must not wait for answers
  auto store = rdzv::StoreServer::start(std::move(listener), std::move(settings));
  if (store) {
    handles_->store.emplace(std::move(*store));
  } else {
    handle(CannotGoOn{"the workers have no store: " +
                      rdzv::StoreServer::why_not_started(store.error())});
  }
}

void Agent::end_store() {
  is_store_wanted_ = false;
  handles_->listening.reset();
  if (handles_->store) result_.newer_store_clients = handles_->store->counters().newer_clients > 0;
  if (nodes_ != nullptr) nodes_->close_store();
  handles_->store.reset();
}

/// A start is too short for that: no process fills a machine's memory in so little time.
void Agent::count_memory_kills() {
  memory_timer_.expires_after(kMemoryCountAfter);
  memory_timer_.async_wait([this](ErrorCode ec) {
    if (!ec && !memory_kills_) memory_kills_ = machine::memory_kill_count();
  });
}

}  // namespace ddprun::agent
