// What the service keeps apart where it has several tenants: which jobs one of them sees, and how
// much it may have.
#include <fmt/format.h>

#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

/// To a client that proved the secret for `run_id`.
bool ServiceCore::is_visible(const std::string& job, const std::string& run_id) const {
  if (!settings_.tenant_limits) return true;
  const std::string* const tenant = tenants_.of(run_id);
  return tenant != nullptr && tenants_.of(job) == tenant;
}

/// Why a job of this id may not have another node, or be there at all; empty: it may.
std::string ServiceCore::why_tenant_is_full(const std::string& run_id, bool one_more_job) const {
  const std::string* const name = settings_.tenant_limits ? tenants_.of(run_id) : nullptr;
  if (name == nullptr) return "";
  std::size_t jobs = 0;
  std::size_t nodes = 0;
  const std::string begin(names_many(*name) ? common_begin(*name) : std::string_view(*name));
  for (auto one = jobs_.lower_bound(begin); one != jobs_.end() && one->first.starts_with(begin);
       ++one) {
    if (tenants_.of(one->first) != name) continue;
    jobs += one->second.job.is_idle() ? 0 : 1;
    nodes += one->second.job.sessions().size();
  }
  const TenantLimits& limits = *settings_.tenant_limits;
  if (one_more_job && jobs >= limits.jobs_max) {
    return fmt::format("the jobs named {} are {} already, as many as one tenant may have here",
                       *name, jobs);
  }
  if (nodes >= limits.nodes_max) {
    return fmt::format(
        "the jobs named {} have {} nodes already, as many as one tenant may have here", *name,
        nodes);
  }
  return "";
}

}  // namespace ddprun::rdzv
