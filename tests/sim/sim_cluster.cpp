#include "tests/sim/sim_cluster.hpp"

namespace ddprun::sim {

SimCluster::SimCluster(World& world, const ServicePlan& service, ClusterPlan plan,
                       std::function<void()> after)
    : world_(world), shared_{SimEtcd(world), {}, nullptr, {}, std::move(after), {}, 0, 0} {
  for (int number = 0; number < plan.rdzvds; ++number)
    rdzvds_.push_back(
        std::make_unique<SimRdzvd>(world, service, number, plan.clock_ppm_most, shared_));
}

std::vector<SimProcess*> SimCluster::places() {
  std::vector<SimProcess*> places;
  for (const auto& rdzvd : rdzvds_) places.push_back(rdzvd.get());
  return places;
}

const rdzv::Job* SimCluster::job() const {
  return shared_.leader != nullptr ? shared_.leader->job() : nullptr;
}

const std::string& SimCluster::broken() const {
  if (!shared_.etcd.broken().empty()) return shared_.etcd.broken();
  if (!shared_.told.broken().empty()) return shared_.told.broken();
  return shared_.broken;
}

SimRdzvd& SimCluster::any() { return *rdzvds_[world_.below(rdzvds_.size())]; }

void SimCluster::heal() {
  shared_.etcd.heal();
  for (const auto& rdzvd : rdzvds_) rdzvd->heal();
}

}  // namespace ddprun::sim
