// Where the nodes of a job meet, and what they agree on before they do. The agent resolves the
// endpoint's name itself, again and again: names may appear late. Here it is resolved only for what
// people are told.
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "launcher/cluster/schedulers.hpp"
#include "launcher/options/option_value.hpp"
#include "launcher/options/rdzv_conf.hpp"
#include "launcher/plan/plan_parts.hpp"
#include "proto/message_limits.hpp"
#include "proto/run_id.hpp"

namespace ddprun::launcher {
namespace {

using agent::RendezvousSettings;

// torchrun's.
constexpr std::uint16_t kStaticPort = 29500;
constexpr std::uint16_t kDynamicPort = 29400;

constexpr std::chrono::milliseconds kNow{0};
/// A launcher that hears nothing of a node ends its ssh at about the end of the lease, and there is
/// no other way to it.
constexpr std::chrono::seconds kSshLostMargin{15};

constexpr std::string_view kOwnRankUnderSlurm =
    "under Slurm type srun --ntasks-per-node=1 ddprun ... without --node-rank: each node has its "
    "own rank then";

/// What make_plan was given.
struct Given {
  const LaunchOptions& options;
  const Environment& environment;
  const Probes& probes;
};

/// With what to type on each node as further lines.
LaunchError no_address(const Given& given) {
  const LaunchOptions& options = given.options;
  const bool has_variable = lookup(given.environment, "MASTER_ADDR").has_value();
  const std::string host = has_variable ? "$MASTER_ADDR" : "HOST";
  const std::string nodes =
      options.nodes.count.min == options.nodes.count.max
          ? fmt::format("{}", options.nodes.count.max)
          : fmt::format("{}:{}", options.nodes.count.min, options.nodes.count.max);
  const std::string program =
      printable(options.program.name) + (options.program.arguments.empty() ? "" : " ...");
  auto error = usage_error(options.nodes.count.spelling +
                           ": the nodes need an address where they meet; type on each node");
  error.more = fmt::format(
      "\n"
      "  ddprun --nnodes={0} --node-rank=N --master-addr={1} {2}\n"
      "where N is 0 on {1}, then 1, 2, ...; or the same line on each node, where {1} is one of "
      "them\n"
      "  ddprun --nnodes={0} --rdzv-backend=c10d --rdzv-endpoint={1} {2}",
      nodes, host, program);
  return error;
}

/// --master-addr, which has no port.
LaunchResult<std::string> master_host(const LaunchOptions& options) {
  const auto taken = parse_endpoint(options.store.master_addr);
  const std::string typed = "--master-addr=" + options.store.master_addr;
  if (!taken) return usage_error(typed + ": " + taken.error() + "; expected a host");
  if (!taken->port) return taken->host;
  return usage_error(fmt::format("{}: expected a host; type --master-addr={} --master-port={}",
                                 typed, taken->host, *taken->port));
}

/// The port is `otherwise` where none was given.
LaunchResult<void> complete_port(Endpoint& endpoint, std::uint16_t otherwise) {
  if (!endpoint.port) endpoint.port = otherwise;
  if (endpoint.port != 0) return {};
  return usage_error(to_string(endpoint) +
                     ": several nodes need a port that all of them know, not 0");
}

/// An endpoint wins over --master-addr and --master-port.
LaunchResult<Endpoint> static_endpoint(const Given& given) {
  const LaunchOptions& options = given.options;
  Endpoint endpoint;
  if (options.rendezvous.endpoint) {
    endpoint = *options.rendezvous.endpoint;
  } else if (options.store.master_addr.empty()) {
    return no_address(given);
  } else {
    auto host = master_host(options);
    if (!host) return host.error();
    endpoint.host = std::move(*host);
  }
  const auto completed = complete_port(endpoint, options.store.master_port.value_or(kStaticPort));
  if (!completed) return completed.error();
  return endpoint;
}

/// Whether the node can have that rank in a static job that meets at `host`.
LaunchResult<void> check_rank(const Given& given, int rank, const std::string& host) {
  const LaunchOptions& options = given.options;
  if (rank >= options.nodes.count.max) {
    const std::string why =
        fmt::format("{}: with {} node ranks are 0 to {}", options.nodes.rank_spelling,
                    options.nodes.count.spelling, options.nodes.count.max - 1);
    const bool slurm = lookup(given.environment, "SLURM_PROCID").has_value();
    return usage_error(slurm ? fmt::format("{}; {}", why, kOwnRankUnderSlurm) : why);
  }
  // torchrun takes a missing rank for 0, and so on each node: then none joins another.
  const auto id = lookup(given.environment, "SLURM_NODEID");
  if (rank != 0 || !id || parse_integer(*id).value_or(0) == 0) return {};
  if (slurm_nodes(given.environment) < 2) return {};
  const auto addr = numeric_address(host, given.probes, kNow);
  const auto own = given.probes.own_addresses();
  const bool meets_here = addr && std::find(own.begin(), own.end(), *addr) != own.end();
  if (meets_here) return {};
  return usage_error(
      fmt::format("{}, but this is Slurm's node {}, and {} is not an address of it; {}",
                  options.nodes.rank ? options.nodes.rank_spelling : "--node-rank is missing", *id,
                  host, kOwnRankUnderSlurm));
}

/// torchrun's static rendezvous: every node knows its rank, and rank 0 serves MASTER_PORT.
LaunchResult<void> meet_by_rank(const Given& given, LaunchPlan& plan,
                                RendezvousSettings& settings) {
  auto endpoint = static_endpoint(given);
  if (!endpoint) return endpoint.error();
  settings.endpoint = std::move(*endpoint);
  const int rank = given.options.nodes.rank.value_or(0);
  if (const auto checked = check_rank(given, rank, settings.endpoint.host); !checked)
    return checked.error();
  plan.agent.store.master_addr = settings.endpoint.host;
  plan.agent.store.master_port = settings.endpoint.port.value_or(kStaticPort);
  settings.node_rank = rank;
  settings.insists_on_rank = true;
  settings.one_port = plan.agent.store.in_agent;
  if (rank != 0) {
    settings.hosting = rdzv::HostingWish::other_rank;
  } else {
    settings.hosting =
        given.options.nodes.rank ? rdzv::HostingWish::rank0 : rdzv::HostingWish::rank0_by_default;
  }
  if (settings.one_port) return {};
  // The worker of rank 0 needs MASTER_PORT itself; all nodes know this from their command lines.
  if (plan.agent.store.master_port == UINT16_MAX) {
    return usage_error(
        "--worker-store=rank0: the nodes meet at the port after MASTER_PORT, and no port comes "
        "after 65535; give another --master-port");
  }
  settings.endpoint.port = static_cast<std::uint16_t>(plan.agent.store.master_port + 1);
  return {};
}

/// Where each node has the same command, its rank is a wish, and the first node's store is chosen
/// by that node.
void take_wishes(const LaunchOptions& options, LaunchPlan& plan, RendezvousSettings& settings) {
  if (!options.store.master_addr.empty() || options.store.master_port) {
    plan.warnings.push_back(
        fmt::format("--master-addr and --master-port have no effect with --rdzv-backend={}: the "
                    "node of group rank 0 chooses them",
                    options.rendezvous.backend));
  }
  settings.node_rank = options.nodes.rank;
  if (settings.node_rank >= options.nodes.count.max) {
    plan.warnings.push_back(fmt::format("{} has no effect: with {} node ranks are 0 to {}",
                                        options.nodes.rank_spelling, options.nodes.count.spelling,
                                        options.nodes.count.max - 1));
    settings.node_rank.reset();
  }
}

/// The c10d rendezvous: the same command on each node, and one of them has the endpoint's address.
LaunchResult<void> meet_at_endpoint(const Given& given, LaunchPlan& plan,
                                    RendezvousSettings& settings) {
  const LaunchOptions& options = given.options;
  settings.endpoint = options.rendezvous.endpoint.value_or(Endpoint("localhost", std::nullopt));
  if (const auto completed = complete_port(settings.endpoint, kDynamicPort); !completed)
    return completed.error();
  settings.more_endpoints = options.rendezvous.more_endpoints;
  for (Endpoint& more : settings.more_endpoints)
    if (const auto completed = complete_port(more, kDynamicPort); !completed)
      return completed.error();
  take_wishes(options, plan, settings);
  const auto& ports = plan.cluster.ports;
  if (!ports.empty()) settings.more_ports.assign(ports.begin() + 1, ports.end());
  if (plan.cluster.is_first_host) {
    settings.hosting =
        *plan.cluster.is_first_host ? rdzv::HostingWish::first_host : rdzv::HostingWish::other_rank;
  }
  if (const auto is_host = options.rendezvous.conf.boolean("is_host"))
    settings.hosting = *is_host ? rdzv::HostingWish::is_host : rdzv::HostingWish::not_host;
  if (!settings.more_endpoints.empty()) {
    if (options.rendezvous.conf.boolean("is_host").value_or(false))
      plan.warnings.emplace_back(
          "--rdzv-conf=is_host=1 has no effect: --rdzv-endpoint names several rdzvd");
    settings.hosting = rdzv::HostingWish::several_rdzvd;
  }
  return {};
}

/// torchrun's rendezvous in etcd: the service is in agents of the job, and etcd has its place.
LaunchResult<void> meet_over_etcd(const Given& given, LaunchPlan& plan,
                                  RendezvousSettings& settings) {
  const LaunchOptions& options = given.options;
  if (const auto planned = plan_etcd(options, given.probes, plan, settings); !planned)
    return planned.error();
  settings.endpoint = settings.etcd->members.front();
  settings.hosting = rdzv::HostingWish::not_host;
  take_wishes(options, plan, settings);
  const auto is_host = options.rendezvous.conf.boolean("is_host");
  settings.may_host = is_host.value_or(true);
  if (settings.may_host && is_host)
    plan.warnings.push_back(
        "--rdzv-conf=is_host=1 has no effect with --rdzv-backend=" + options.rendezvous.backend +
        ": the job's first agents run the rendezvous");
  if (!options.rendezvous.run_id)
    plan.warnings.push_back(
        "no --rdzv-id is given: all jobs without one that use this etcd are "
        "one job; give each an ID of its own");
  return {};
}

/// Where a launcher has started this node through ssh.
void meet_over_ssh(const Given& given, LaunchPlan& plan, RendezvousSettings& settings) {
  const SshNode& node = *given.options.ssh_node;
  settings.endpoint = *given.options.rendezvous.endpoint;
  settings.socket = node.socket;
  settings.own.name = given.probes.host_name;
  settings.hosting = rdzv::HostingWish::not_host;
  settings.node_rank = given.options.nodes.rank;
  settings.own.addr = node.addr;
  settings.secret = node.secret;
  settings.needs_proof = true;
  plan.agent.report.keep_error_files = node.wants_error_file;
}

/// Whether other machines can come to the endpoint at all.
LaunchResult<void> check_endpoint(const Given& given, const RendezvousSettings& settings,
                                  LaunchPlan& plan) {
  const std::string shown = to_string(settings.endpoint);
  if (settings.endpoint.host == "0.0.0.0" || settings.endpoint.host == "::") {
    return usage_error(shown +
                       " leads every node to itself; give a name or an address of the node where "
                       "all of them meet");
  }
  if (settings.etcd || !leads_to_itself(settings.endpoint.host)) return {};
  if (slurm_nodes(given.environment) > 1) {
    return usage_error(
        shown +
        ": each node of this Slurm job would meet only itself; leave the address out under srun, "
        "or give --rdzv-endpoint=HOST, where HOST is one of the nodes");
  }
  // One that was typed is for several agents on one machine: a node that waits for others is told.
  if (!given.options.rendezvous.endpoint && !settings.insists_on_rank)
    plan.warnings.push_back(
        fmt::format("no --rdzv-endpoint is given, so the rendezvous is at {} and only agents on "
                    "this machine can join; name one of the machines: --rdzv-endpoint=HOST",
                    shown));
  return {};
}

LaunchResult<void> take_local_addr(const Given& given, LaunchPlan& plan,
                                   RendezvousSettings& settings) {
  const std::string typed = "--local-addr=" + given.options.nodes.local_addr;
  if (given.options.nodes.local_addr.empty()) return {};
  const auto taken = parse_endpoint(given.options.nodes.local_addr);
  if (!taken || taken->port) return usage_error(typed + ": expected a host without a port");
  const auto addr = numeric_address(taken->host, given.probes, resolve_limit(given.options));
  if (!addr) {
    return usage_error(typed +
                       " does not resolve to an address; leave it out, or give an address of this "
                       "machine");
  }
  settings.own.addr = *addr;
  settings.own.typed_addr = taken->host;
  if (is_loopback(*addr) && (settings.etcd || !leads_to_itself(settings.endpoint.host)))
    plan.warnings.push_back(typed + ": other machines cannot reach this node there");
  return {};
}

/// How long is waited for what; the job's own settings must come out alike on all nodes.
LaunchResult<void> take_times(const Given& given, LaunchPlan& plan, RendezvousSettings& settings) {
  const RdzvConf& conf = given.options.rendezvous.conf;
  std::optional<std::chrono::nanoseconds> ssh_margin;
  if (given.options.ssh_node) ssh_margin = kSshLostMargin;
  const auto times = rdzv_times(conf, ssh_margin);
  if (!times) return times.error();
  settings.lease = times->lease;
  settings.lost_timeout = times->lost_timeout;
  // The launcher has printed them.
  if (!given.options.ssh_node)
    plan.warnings.insert(plan.warnings.end(), times->warnings.begin(), times->warnings.end());

  proto::JobSettings& job = plan.agent.job;
  job.min_nodes = given.options.nodes.count.min;
  job.max_nodes = given.options.nodes.count.max;
  job.max_node_changes = given.options.nodes.max_changes;
  job.grow_delay = given.options.nodes.grow_delay;
  job.failing_nodes_step_back = true;
  job.last_call = times->last_call.value_or(job.last_call);
  job.join_timeout = times->join_timeout.value_or(job.join_timeout);
  if (const auto keys = keys_without_effect(conf, settings.etcd.has_value()); !keys.empty())
    plan.warnings.push_back("--rdzv-conf: without effect here: " + keys);
  return {};
}

/// Messages carry it as it is, or the nodes would never find their job.
LaunchResult<void> check_run_id(const LaunchOptions& options) {
  if (!options.rendezvous.run_id) return {};
  const std::string& id = *options.rendezvous.run_id;
  if (id.size() > proto::kNameBytesMax)
    return usage_error(fmt::format("--rdzv-id has {} bytes; it may have at most {}", id.size(),
                                   proto::kNameBytesMax));
  const nlohmann::json json = id;
  if (nlohmann::json::parse(json_text(json)) != json)
    return usage_error("--rdzv-id=" + printable(id) + ": nodes can only agree on UTF-8 text");
  return {};
}

std::optional<rdzv::HostingChoice> hosting_now(const RendezvousSettings& settings,
                                               const Probes& probes) {
  const auto addr = numeric_address(settings.endpoint.host, probes, kNow);
  if (!addr) return std::nullopt;
  return rdzv::choose_host(settings.hosting, settings.endpoint.host, {*addr},
                           probes.own_addresses());
}

}  // namespace

LaunchResult<void> plan_rendezvous(const LaunchOptions& options, const Environment& environment,
                                   const Probes& probes, LaunchPlan& plan) {
  const Given given{options, environment, probes};
  RendezvousSettings settings;
  if (const auto checked = check_run_id(options); !checked) return checked.error();
  if (options.ssh_node) {
    meet_over_ssh(given, plan, settings);
  } else {
    const auto meet = options.rendezvous.backend == "static" ? meet_by_rank
                      : meets_over_etcd(options)             ? meet_over_etcd
                                                             : meet_at_endpoint;
    if (const auto met = meet(given, plan, settings); !met) return met.error();
    if (const auto checked = check_endpoint(given, settings, plan); !checked)
      return checked.error();
    if (const auto taken = take_local_addr(given, plan, settings); !taken) return taken.error();
    if (const auto taken = take_secret(options, environment, probes, plan, settings); !taken)
      return taken.error();
    if (const auto taken = take_tls(options, probes, plan, settings); !taken) return taken.error();
  }
  if (const auto taken = take_times(given, plan, settings); !taken) return taken.error();
  if (options.request != Request::run && !settings.etcd)
    plan.hosting = hosting_now(settings, probes);

  plan.agent.run_id = options.rendezvous.run_id.value_or(std::string(proto::kDefaultRunId));
  plan.agent.node.boot_id = probes.boot_id();
  plan.agent.report.wanted = !options.report.file.empty();
  plan.agent.rendezvous = std::move(settings);
  plan.warden.has_lease = true;
  return {};
}

}  // namespace ddprun::launcher
