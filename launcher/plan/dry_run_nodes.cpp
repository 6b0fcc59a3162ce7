#include "launcher/plan/dry_run_nodes.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/describe.hpp"
#include "launcher/options/enum_words.hpp"
#include "proto/environment_names.hpp"
#include "rendezvous/etcd/etcd_url.hpp"

namespace ddprun::launcher {
namespace {

std::string hosting_text(const LaunchPlan& plan, const agent::RendezvousSettings& settings) {
  if (settings.etcd)
    return fmt::format(
        "{}one of the job's first three agents; its address stands in etcd, below {}",
        settings.may_host ? "" : "another node: ",
        rdzv::etcd_place_of_run(*settings.etcd, plan.agent.run_id).prefix);
  if (settings.hosting == rdzv::HostingWish::other_rank) return "the node with rank 0";
  if (!plan.hosting)
    return fmt::format("not known: {} does not resolve now", settings.endpoint.host);
  return fmt::format("{}: {}", plan.hosting->here ? "this node" : "another machine",
                     plan.hosting->why);
}

std::string endpoint_text(const agent::RendezvousSettings& settings) {
  if (settings.etcd) return rdzv::to_string(*settings.etcd);
  if (!settings.more_endpoints.empty()) {
    std::string text = to_string(settings.endpoint);
    for (const Endpoint& more : settings.more_endpoints) text += ", " + to_string(more);
    return text + ": the one of these rdzvd that leads";
  }
  if (settings.more_ports.empty()) return to_string(settings.endpoint);
  return fmt::format("{} to {}, the first port that is free", to_string(settings.endpoint),
                     settings.more_ports.back());
}

std::vector<std::string> more_endpoints(const agent::RendezvousSettings& settings) {
  std::vector<std::string> texts;
  for (const Endpoint& more : settings.more_endpoints) texts.push_back(to_string(more));
  if (!settings.etcd) return texts;
  const auto& members = settings.etcd->members;
  for (auto member = members.begin() + 1; member != members.end(); ++member)
    texts.push_back(to_string(*member));
  return texts;
}

/// How this node gets in there.
std::string access_text(const rdzv::EtcdAccess& access) {
  std::string text = access.encrypter ? access.encrypter->description() : "not encrypted";
  return text + (access.user.empty() ? ", without a user" : ", as user " + access.user);
}

nlohmann::ordered_json encryption_json(const std::shared_ptr<const proto::Encrypter>& encrypter) {
  if (encrypter) return encrypter->description();
  return nullptr;
}

RdzvAuth auth_of(const agent::RendezvousSettings& settings) {
  if (!settings.needs_proof) return RdzvAuth::automatic;
  return settings.makes_secret ? RdzvAuth::munge : RdzvAuth::required;
}

std::string secret_text(const agent::RendezvousSettings& settings) {
  if (settings.makes_secret && settings.needs_proof) return "MUNGE proves each node's user";
  if (settings.makes_secret) return "MUNGE proves each node's user, where it runs";
  if (settings.secret.empty()) return "none";
  return settings.needs_proof ? "used, and required of the others"
                              : "used, if the serving side has one, too";
}

}  // namespace

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

bool of_the_round(const LaunchPlan& plan, std::string_view name) {
  using namespace proto::env;
  if (!plan.agent.rendezvous) return false;
  if (name == kMasterAddr) return plan.agent.store.master_addr.empty();
  if (name == kMasterPort) return plan.agent.store.master_port == 0;
  constexpr std::array kNames = {kRank,      kGroupRank,      kRoleRank,
                                 kWorldSize, kGroupWorldSize, kRoleWorldSize};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string cluster_text(const LaunchPlan& plan) {
  std::string text;
  for (const ClusterValue& one : plan.cluster.values) {
    text += fmt::format("{} {}={} ({})", text.empty() ? plan.cluster.scheduler + ":" : ",",
                        one.option, one.value, one.variable);
  }
  return text;
}

nlohmann::ordered_json cluster_json(const LaunchPlan& plan) {
  auto values = nlohmann::ordered_json::array();
  for (const ClusterValue& one : plan.cluster.values)
    values.push_back({{"option", one.option}, {"value", one.value}, {"from", one.variable}});
  return {{"scheduler", plan.cluster.scheduler}, {"values", std::move(values)}};
}

DryRunRows nodes_rows(const LaunchPlan& plan) {
  if (!plan.agent.rendezvous) return {};
  const agent::RendezvousSettings& settings = *plan.agent.rendezvous;
  const proto::JobSettings& job = plan.agent.job;
  const bool elastic = job.min_nodes < job.max_nodes;
  std::string nodes = fmt::format("{}", job.max_nodes);
  if (elastic) nodes = fmt::format("{} to {}", job.min_nodes, job.max_nodes);
  if (settings.node_rank) nodes += fmt::format("; this one has node rank {}", *settings.node_rank);
  std::string waits = describe(job.join_timeout) + " for a round to form";
  if (elastic) {
    waits += fmt::format(", {} for more nodes once {} there", describe(job.last_call),
                         job.min_nodes == 1 ? "one is" : fmt::format("{} are", job.min_nodes));
  }
  DryRunRows rows = {
      {"nodes", nodes},
      {"rendezvous", endpoint_text(settings)},
      {"hosted by", hosting_text(plan, settings)},
      {"secret", secret_text(settings)},
      {"waits", waits},
      {"lost", fmt::format("a node after {} of silence, the rendezvous after {}",
                           describe(settings.lease), describe(settings.lost_timeout))}};
  if (settings.etcd) rows.insert(rows.begin() + 2, {"etcd", access_text(settings.etcd_access)});
  if (settings.encrypter) rows.emplace_back("encryption", settings.encrypter->description());
  if (elastic) {
    rows.emplace_back("grows", job.grow_delay ? describe(*job.grow_delay) + " after a new node"
                                              : std::string("never"));
  }
  return rows;
}

nlohmann::ordered_json rendezvous_json(const LaunchPlan& plan) {
  using Json = nlohmann::ordered_json;
  const agent::RendezvousSettings& settings = *plan.agent.rendezvous;
  const proto::JobSettings& job = plan.agent.job;
  const rdzv::EtcdAccess& access = settings.etcd_access;
  return {{"min_nodes", job.min_nodes},
          {"max_nodes", job.max_nodes},
          {"node_rank", settings.node_rank ? Json(*settings.node_rank) : Json(nullptr)},
          {"endpoint", to_string(settings.endpoint)},
          {"more_ports", settings.more_ports},
          {"more_endpoints", more_endpoints(settings)},
          {"etcd_prefix", settings.etcd ? Json(settings.etcd->prefix) : Json(nullptr)},
          {"etcd_encryption", encryption_json(access.encrypter)},
          {"etcd_user", access.user.empty() ? Json(nullptr) : Json(access.user)},
          {"hosted_here", plan.hosting ? Json(plan.hosting->here) : Json(nullptr)},
          {"hosted_by", hosting_text(plan, settings)},
          {"secret", !settings.secret.empty()},
          {"encryption", encryption_json(settings.encrypter)},
          {"munge", settings.makes_secret},
          {"auth", word_of(auth_of(settings))},
          {"join_timeout_seconds", seconds(job.join_timeout)},
          {"last_call_seconds", seconds(job.last_call)},
          {"lease_seconds", seconds(settings.lease)},
          {"lost_timeout_seconds", seconds(settings.lost_timeout)},
          {"grow_delay_seconds", job.grow_delay ? Json(seconds(*job.grow_delay)) : Json(nullptr)},
          {"max_node_changes", job.max_node_changes ? Json(*job.max_node_changes) : Json(nullptr)}};
}

}  // namespace ddprun::launcher
