// What goes wrong with several rdzvd and their etcd.
#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

void SimJob::harm_cluster() {
  SimRdzvd* const leader = cluster_->leader();
  SimRdzvd& victim = leader != nullptr && !world_.one_in(4) ? *leader : cluster_->any();
  const Duration lasts = world_.one_in(2) ? world_.up_to(3s) : world_.up_to(20s);
  const auto begin = [&](bool has_fault, const char* name) {
    if (has_fault) happened(name);
    return has_fault;
  };
  switch (world_.below(7)) {
    case 0:
      if (begin(faults_.service_crashes, "rdzvd killed")) victim.kill(lasts);
      break;
    case 1:
      if (begin(faults_.service_crashes, "rdzvd killed at a write"))
        victim.harm_next_write(SimRdzvd::Fault::kill, lasts);
      break;
    case 2:
      if (begin(faults_.leader_freezes, "rdzvd stopped")) victim.freeze(lasts);
      break;
    case 3:
      if (begin(faults_.leader_freezes, "rdzvd stopped at a write"))
        victim.harm_next_write(SimRdzvd::Fault::freeze, lasts);
      break;
    case 4:
      if (begin(faults_.leader_cut_off, "rdzvd cut off from etcd")) victim.cut_from_etcd(lasts);
      break;
    case 5:
      if (begin(faults_.etcd_goes_away, "etcd away")) cluster_->etcd().go_away(lasts);
      break;
    default:
      if (begin(faults_.etcd_is_slow, "etcd slow")) cluster_->etcd().be_slow(lasts);
      if (begin(faults_.etcd_loses, "etcd loses answers")) cluster_->etcd().lose(lasts);
      break;
  }
}

/// Another leader may follow, which is there long before an agent's lease is over. How long it
/// lasts until one is.
Duration SimJob::do_mild_harm_to_cluster() {
  constexpr Duration kElection = 7s;
  SimRdzvd* const leader = cluster_->leader();
  if (leader == nullptr) return 0s;
  const Duration lasts = world_.up_to(20s);
  switch (world_.below(4)) {
    case 0:
      if (!faults_.service_crashes) return 0s;
      happened("rdzvd killed");
      world_.one_in(2) ? leader->kill(lasts)
                       : leader->harm_next_write(SimRdzvd::Fault::kill, lasts);
      break;
    case 1:
      if (!faults_.leader_freezes) return 0s;
      happened("rdzvd stopped");
      leader->freeze(lasts);
      break;
    case 2:
      if (!faults_.leader_cut_off) return 0s;
      happened("rdzvd cut off from etcd");
      leader->cut_from_etcd(lasts);
      break;
    default:
      if (!faults_.etcd_goes_away) return 0s;
      happened("etcd away");
      cluster_->etcd().go_away(world_.up_to(1s));
      break;
  }
  return lasts + kElection;
}

}  // namespace ddprun::sim
