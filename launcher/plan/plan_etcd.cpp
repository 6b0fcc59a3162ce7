// The etcd of a job that meets over one: its members and where the job's keys are.
#include <utility>

#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {

Outcome<rdzv::EtcdPlace> plan_etcd(const LaunchOptions& options) {
  if (!options.rdzv_endpoint) {
    return usage_error("--rdzv-backend=" + options.rdzv_backend +
                       ": the address of etcd is missing; add --rdzv-endpoint=HOST:2379, or "
                       "several members: HOST:2379,HOST:2379,HOST:2379");
  }
  if (const auto protocol = options.rdzv_conf.value("protocol").value_or("http");
      protocol != "http") {
    return usage_error("--rdzv-conf: protocol=" + protocol +
                       " is not supported for etcd; leave it out, and give etcd a client URL with "
                       "http:// (--listen-client-urls)");
  }
  auto prefix = rdzv::parse_etcd_prefix(options.rdzv_conf.value("etcd_prefix").value_or(""));
  if (!prefix) return usage_error("--rdzv-conf: etcd_prefix: " + prefix.error());
  rdzv::EtcdPlace etcd;
  etcd.prefix = std::move(*prefix);
  etcd.members = options.more_endpoints;
  etcd.members.insert(etcd.members.begin(), *options.rdzv_endpoint);
  for (Endpoint& member : etcd.members) {
    if (!member.port) member.port = rdzv::kEtcdPort;
    if (member.port == 0)
      return usage_error("--rdzv-endpoint=" + to_string(member) + ": etcd has no port 0");
  }
  return etcd;
}

}  // namespace ddprun::launcher
