// Kubernetes. Most operators give torchrun's options as PET_ variables, which ddprun reads as
// options; here is what they give otherwise.
#include <fmt/format.h>

#include "base/number_in.hpp"
#include "launcher/cluster/schedulers.hpp"

namespace ddprun::launcher {
namespace {

/// `train-workers-0-3` -> `train-workers-0-0`, for index 3. Empty: it is named in another way.
std::string name_of_index0(const std::string& pod, int index) {
  const std::string suffix = fmt::format("-{}", index);
  if (!pod.ends_with(suffix) || pod.size() == suffix.size()) return "";
  return pod.substr(0, pod.size() - suffix.size()) + "-0";
}

}  // namespace

LaunchResult<ClusterNode> kubeflow_node(const Environment& environment) {
  const auto host = lookup(environment, "MASTER_ADDR");
  const bool is_operator =
      lookup(environment, "PET_NNODES") && lookup(environment, "PET_NODE_RANK");
  if (!is_operator || !host || host->empty()) return ClusterNode{};
  ClusterNode node;
  node.scheduler = "Kubeflow";
  node.first_host = {*host, "MASTER_ADDR"};
  constexpr std::uint16_t kPort = 29500;  // torchrun's
  const auto port = lookup(environment, "MASTER_PORT");
  const auto number = port ? number_in<std::uint16_t>(*port) : std::optional(kPort);
  if (!number) return usage_error("MASTER_PORT=" + *port + ": expected a port, 1 to 65535");
  node.master_port = {*number, "MASTER_PORT"};
  return node;
}

LaunchResult<ClusterNode> kubernetes_node(const Environment& environment) {
  const auto index = count_in(environment, "JOB_COMPLETION_INDEX");
  if (!index) return index.error();
  if (!*index) return ClusterNode{};
  ClusterNode node;
  node.scheduler = "Kubernetes";
  node.node_rank = {**index, "JOB_COMPLETION_INDEX"};
  node.endpoint_advice =
      "--rdzv-endpoint=POD.SERVICE, the pod with index 0 and the headless service of the Job";
  const auto set = lookup(environment, "JOBSET_NAME");
  const std::string first = name_of_index0(lookup(environment, "HOSTNAME").value_or(""), **index);
  // A JobSet's pods have names below those of its service, which is called like the set.
  if (set && !set->empty() && !first.empty())
    node.first_host = {first + "." + *set, "HOSTNAME, JOBSET_NAME"};
  return node;
}

}  // namespace ddprun::launcher
