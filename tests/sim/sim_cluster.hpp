// The rendezvous of a job in the simulation by several rdzvd and an etcd.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sim_rdzvd.hpp"

namespace ddprun::sim {

class SimCluster : public SimRendezvous {
 public:
  struct ClusterPlan {
    int rdzvds = 3;
    std::int64_t clock_ppm_most = 50;
  };
  /// `after`: when events were taken.
  SimCluster(World& world, const ServicePlan& service, ClusterPlan plan,
             std::function<void()> after);

  [[nodiscard]] std::vector<SimProcess*> places() override;
  [[nodiscard]] const rdzv::Job* job() const override;
  [[nodiscard]] const std::string& broken() const override;
  [[nodiscard]] std::vector<rdzv::JobRecord> take_records() override {
    return std::exchange(shared_.records, {});
  }
  void heal() override;

  [[nodiscard]] SimEtcd& etcd() { return shared_.etcd; }
  /// Null: none leads.
  [[nodiscard]] SimRdzvd* leader() { return shared_.leader; }
  [[nodiscard]] SimRdzvd& any();
  [[nodiscard]] int leaders() const { return shared_.leaders; }
  [[nodiscard]] int untold() const { return shared_.untold; }

 private:
  World& world_;
  SimRdzvd::Shared shared_;
  std::vector<std::unique_ptr<SimRdzvd>> rdzvds_;
};

}  // namespace ddprun::sim
