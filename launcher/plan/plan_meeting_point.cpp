// Where the workers of one node meet: MASTER_ADDR, MASTER_PORT, and where our store listens.
#include "base/endpoint.hpp"
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1";
constexpr std::chrono::seconds kResolveLimit{60};  // where --rdzv-conf does not say

/// torchrun's rule for --standalone; people use the flag so that two jobs on one machine never
/// meet. With several nodes torchrun waits for some that cannot come.
LaunchResult<void> make_standalone(const LaunchOptions& options, LaunchPlan& plan) {
  const auto ignore = [&plan](bool given, const char* name) {
    if (given) plan.warnings.push_back(std::string(name) + " is ignored because of --standalone");
  };
  if (options.nodes.count.min > 1) {
    return usage_error(options.nodes.count.spelling +
                       " and --standalone exclude each other: a standalone job has one node; "
                       "leave one out");
  }
  ignore(options.nodes.count.max > 1, "--nnodes");
  ignore(options.rendezvous.run_id.has_value(), "--rdzv-id");
  ignore(!options.store.master_addr.empty(), "--master-addr");
  ignore(options.store.master_port.has_value(), "--master-port");
  plan.agent.run_id.clear();
  plan.agent.store.master_port = 0;
  plan.agent.store.master_addr.clear();
  return {};
}

/// MASTER_ADDR and MASTER_PORT as far as options name them.
void name_meeting_point(const LaunchOptions& options, LaunchPlan& plan) {
  plan.agent.store.master_port = options.store.master_port.value_or(0);
  plan.agent.store.master_addr = options.store.master_addr;
  const bool fixed = options.rendezvous.backend == "static";
  if (fixed && options.rendezvous.endpoint) {
    // With the static backend the endpoint wins over --master-addr and --master-port.
    plan.agent.store.master_addr = options.rendezvous.endpoint->host;
    if (options.rendezvous.endpoint->port)
      plan.agent.store.master_port = *options.rendezvous.endpoint->port;
  }
  if (meets_over_etcd(options))
    plan.warnings.push_back("--rdzv-backend=" + options.rendezvous.backend +
                            ": a job of one node needs no etcd; the option has no effect");
}

}  // namespace

std::chrono::milliseconds resolve_limit(const LaunchOptions& options) {
  if (options.request != Request::run) return std::chrono::milliseconds(0);
  for (const char* key : {"read_timeout", "join_timeout", "timeout"}) {
    if (const auto limit = options.rendezvous.conf.seconds(key)) return *limit;
  }
  return kResolveLimit;
}

std::optional<std::string> numeric_address(const std::string& host, const Probes& probes,
                                           std::chrono::milliseconds limit) {
  if (is_numeric_address(host)) return host;
  if (host == "localhost") return std::string(kLoopback);
  return probes.resolve_host(host, limit);
}

LaunchResult<void> plan_meeting_point(const LaunchOptions& options, const Environment& environment,
                                      const Probes& probes, LaunchPlan& plan) {
  plan.agent.store.in_agent = options.store.host == WorkerStore::agent;
  plan.agent.store.users = options.store.users;
  if (options.store.ports)
    plan.agent.store.ports = {options.store.ports->first, options.store.ports->last};
  // A launcher's only host has a lease, too.
  if ((options.nodes.count.max > 1 && !options.nodes.standalone) || options.ssh_node)
    return plan_rendezvous(options, environment, probes, plan);

  plan.agent.run_id = options.rendezvous.run_id.value_or("");
  name_meeting_point(options, plan);
  if (options.nodes.standalone) {
    if (const auto alone = make_standalone(options, plan); !alone) return alone.error();
  }
  if (plan.agent.store.master_addr.empty()) plan.agent.store.master_addr = options.nodes.local_addr;
  if (plan.agent.run_id.empty()) plan.agent.run_id = probes.new_run_id();

  std::string& host = plan.agent.store.master_addr;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty()) host = kLoopback;
  const auto address = numeric_address(host, probes, resolve_limit(options));
  if (!address) {
    return usage_error("--master-addr=" + host +
                       " does not resolve to an address; on one machine leave it out");
  }
  plan.agent.store.host = *address;
  return {};
}

}  // namespace ddprun::launcher
