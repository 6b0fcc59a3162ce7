#include "launcher/cluster/cluster_options.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/hash_bytes.hpp"

namespace ddprun::launcher {

namespace {

/// Workers have to end before the scheduler kills them, so that there is a report of it.
constexpr int kBeforeKillWaitSeconds = 5;

bool has_address(const LaunchOptions& options) {
  return options.rendezvous.endpoint || !options.store.master_addr.empty();
}

class ClusterOptions {
 public:
  ClusterOptions(LaunchOptions options, const ClusterNode& node)
      : node_(node), choice_{std::move(options), {}} {}

  LaunchResult<ClusterChoice> take() {
    LaunchOptions& options = choice_.options;
    const bool is_alone = node_.nodes && node_.nodes->value < 2;
    if (!options.nodes.count.given && node_.nodes && !is_alone) take_nodes();
    // The number of a process that was started alone says nothing about others.
    if (options.nodes.count.max > 1 && !is_alone) {
      take_rank();
      take_run_id();
      if (const auto met = take_address(); !met) return met.error();
    }
    take_workers();
    take_grace_period();
    if (!choice_.use.values.empty()) choice_.use.scheduler = node_.scheduler;
    return std::move(choice_);
  }

 private:
  void note(std::string option, std::string value, std::string variable) {
    choice_.use.values.push_back({std::move(option), std::move(value), std::move(variable)});
  }

  void take_nodes() {
    NodeCount& nodes = choice_.options.nodes.count;
    nodes.min = nodes.max = node_.nodes->value;
    nodes.spelling = fmt::format("{}={}", node_.nodes->variable, nodes.max);
    note("--nnodes", fmt::format("{}", nodes.max), node_.nodes->variable);
  }

  /// A node beyond --nnodes is a spare, and gets its rank when it is needed.
  void take_rank() {
    LaunchOptions& options = choice_.options;
    if (options.nodes.rank || !node_.node_rank) return;
    if (node_.node_rank->value >= options.nodes.count.max) return;
    options.nodes.rank = node_.node_rank->value;
    options.nodes.rank_spelling =
        fmt::format("{}={}", node_.node_rank->variable, *options.nodes.rank);
    note("--node-rank", fmt::format("{}", *options.nodes.rank), node_.node_rank->variable);
  }

  void take_run_id() {
    if (choice_.options.rendezvous.run_id || !node_.run_id) return;
    choice_.options.rendezvous.run_id = node_.run_id->value;
    note("--rdzv-id", node_.run_id->value, node_.run_id->variable);
  }

  LaunchResult<void> take_address() {
    LaunchOptions& options = choice_.options;
    if (has_address(options)) {
      // Its machine serves the rendezvous, which need not be that of node rank 0.
      if (options.rendezvous.endpoint && node_.node_rank) take_backend();
      return {};
    }
    if (meets_over_etcd(options)) return {};  // which is none of the nodes
    if (!node_.first_host) {
      if (node_.endpoint_advice.empty()) return {};
      return usage_error(
          fmt::format("{}: the nodes need an address where they meet, which {} does not give; add "
                      "{}",
                      options.nodes.count.spelling, node_.scheduler, node_.endpoint_advice));
    }
    const FromVariable<std::string>& host = *node_.first_host;
    const bool is_static =
        options.rendezvous.backend_given && options.rendezvous.backend == "static";
    if (node_.master_port || is_static ||
        (options.store.master_port && !options.rendezvous.backend_given)) {
      options.store.master_addr = host.value;
      note("--master-addr", host.value, host.variable);
      if (!options.store.master_port && node_.master_port) {
        options.store.master_port = node_.master_port->value;
        note("--master-port", fmt::format("{}", node_.master_port->value),
             node_.master_port->variable);
      }
      return {};
    }
    take_backend();
    if (node_.rank0_is_first_host && node_.node_rank && options.rendezvous.run_id) {
      choice_.use.ports = port_candidates(*options.rendezvous.run_id, options.store.ports);
      choice_.use.is_first_host = node_.node_rank->value == 0;
      options.rendezvous.endpoint = Endpoint(host.value, choice_.use.ports.front());
    } else {
      options.rendezvous.endpoint = Endpoint(host.value, std::nullopt);
    }
    note("--rdzv-endpoint", to_string(*options.rendezvous.endpoint), host.variable);
    return {};
  }

  /// The scheduler's nodes have the same command line, as c10d wants it.
  void take_backend() {
    if (choice_.options.rendezvous.backend_given) return;
    choice_.options.rendezvous.backend = "c10d";
  }

  void take_workers() {
    LaunchOptions& options = choice_.options;
    if (options.workers.processes.given || options.devices.gpus.given || !node_.workers) return;
    options.workers.processes.number = node_.workers->value;
    note("--nproc-per-node", fmt::format("{}", node_.workers->value), node_.workers->variable);
  }

  void take_grace_period() {
    LaunchOptions& options = choice_.options;
    if (options.failures.grace_period_given || !node_.kill_wait_seconds) return;
    const std::chrono::seconds most(*node_.kill_wait_seconds - kBeforeKillWaitSeconds);
    if (options.failures.stop.grace_period <= most) return;
    options.failures.stop.grace_period = most;
    note("--grace-period", fmt::format("{}", most.count()),
         fmt::format("less than {}'s KillWait", node_.scheduler));
  }

  const ClusterNode& node_;
  ClusterChoice choice_;
};

}  // namespace

LaunchResult<ClusterChoice> with_cluster(LaunchOptions options, const Environment& environment) {
  // Hosts of a launcher have been told all that they need.
  if (options.nodes.standalone || options.ssh_node) return ClusterChoice{std::move(options), {}};
  const auto node = cluster_node(environment);
  const bool has_all =
      options.nodes.count.given && (options.nodes.count.max == 1 || has_address(options));
  if (!node) {
    if (!has_all) return node.error();
    return ClusterChoice{std::move(options), {}};
  }
  const bool is_told_nodes = options.nodes.count.given;
  if (!node->scheduler.empty()) return ClusterOptions(std::move(options), *node).take();
  ClusterChoice choice{std::move(options), {}};
  if (!is_told_nodes) choice.use.hint = node->hint;
  return choice;
}

std::vector<std::uint16_t> port_candidates(std::string_view run_id,
                                           const std::optional<PortBounds>& bounds) {
  const PortBounds all = bounds.value_or(PortBounds{20'000, 29'399});
  const std::uint32_t ports = all.last - all.first + 1U;
  const std::uint32_t groups = std::max(ports / kPortCandidates, 1U);
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(run_id)), run_id.size());
  const std::uint32_t first =
      all.first + static_cast<std::uint32_t>(hash % groups) * kPortCandidates;
  std::vector<std::uint16_t> candidates;
  for (std::uint32_t port = first; port <= all.last && port < first + kPortCandidates; ++port)
    candidates.push_back(static_cast<std::uint16_t>(port));
  return candidates;
}

}  // namespace ddprun::launcher
