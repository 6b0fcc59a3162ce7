#include "tests/sim/sim_plan.hpp"

#include <algorithm>
#include <array>

namespace ddprun::sim {

using namespace std::chrono_literals;

namespace {

/// One of these, each as often as the others.
template <class Value, std::size_t kCount>
Value one_of(World& world, const std::array<Value, kCount>& values) {
  return values[world.below(kCount)];
}

void draw_mild(World& world, Faults& faults) {
  for (bool* fault : {&faults.clocks_differ, &faults.network_cut, &faults.connections_break,
                      &faults.firewall_rejects, &faults.readers_slow, &faults.links_slow,
                      &faults.links_hiccup, &faults.service_crashes})
    *fault = world.one_in(2);
  faults.are_mild = true;
}

void draw_etcd(World& world, Faults& faults) {
  faults.over_etcd = true;
  faults.service_crashes |= world.one_in(2);
  for (bool* fault : {&faults.leader_freezes, &faults.leader_cut_off, &faults.etcd_goes_away,
                      &faults.etcd_is_slow, &faults.etcd_loses})
    *fault = world.one_in(2);
  faults.service_forgets = faults.service_has_no_journal = faults.disk_fills = false;
}

proto::JobSettings draw_settings(World& world, const Faults& faults, Ranks ranks) {
  proto::JobSettings settings;
  settings.max_nodes = 1 + static_cast<int>(world.below(5));
  const auto fewer =
      1 + static_cast<int>(world.below(static_cast<std::uint64_t>(settings.max_nodes)));
  settings.min_nodes = ranks == Ranks::insisted || world.one_in(2) ? settings.max_nodes : fewer;
  proto::RestartSettings& restart = settings.restart;
  restart.max_restarts = static_cast<int>(world.below(world.one_in(2) ? 4 : 40));
  if (world.one_in(3)) {
    restart.back_off = 1s;
    restart.back_off_max = one_of<std::chrono::nanoseconds, 2>(world, {5s, 60s});
  }
  if (world.one_in(6)) restart.window = one_of<std::chrono::nanoseconds, 2>(world, {30s, 5min});
  if (world.one_in(8)) restart.minimum_uptime = 5s;
  if (world.one_in(4)) {
    settings.grow_delay.reset();
  } else if (world.one_in(3)) {
    settings.grow_delay = 200ms;
  }
  if (world.one_in(6)) settings.max_node_changes = static_cast<int>(world.below(8));
  settings.failing_nodes_step_back = true;
  settings.last_call = one_of<std::chrono::nanoseconds, 4>(world, {30s, 100ms, 3s, 30s});
  if (!faults.are_mild && world.one_in(6)) settings.join_timeout = 1min;
  return settings;
}

void draw_harm(World& world, Faults& faults) {
  for (bool* fault :
       {&faults.workers_fail, &faults.workers_hang, &faults.nodes_crash, &faults.nodes_vanish,
        &faults.nodes_come, &faults.nodes_leave, &faults.agents_freeze, &faults.hosts_reboot})
    *fault = world.one_in(2);
  faults.strangers_come = faults.nodes_come && world.one_in(2);
  faults.cancelled = world.one_in(6);
  faults.clocks_differ = world.one_in(4);
  faults.network_cut = world.one_in(2);
  faults.links_slow = world.one_in(2);
  faults.links_hiccup = world.one_in(3);
  faults.connections_break = world.one_in(3);
  faults.firewall_rejects = world.one_in(6);
  faults.has_forwarders = world.one_in(6);
  faults.readers_slow = world.one_in(4);
  faults.service_crashes = world.one_in(2);
  faults.bad_batch = faults.workers_fail && world.one_in(3);
  faults.hosts_sleep = world.one_in(3);
  faults.service_forgets = world.one_in(6);
  if (!faults.service_forgets) return;
  faults.service_crashes = true;
  // One with other --nnodes may be the first that a service without memory hears of.
  faults.strangers_come = false;
  faults.service_has_no_journal = world.one_in(2);
  if (faults.service_has_no_journal) return;
  faults.disk_fills = world.one_in(2);
  // A node that is new in every respect cannot tell a service without memory of the others. That a
  // stopped agent goes is its warden's doing.
  faults.nodes_crash = faults.nodes_vanish = faults.hosts_reboot = faults.nodes_come =
      faults.agents_freeze = faults.hosts_sleep = false;
}

}  // namespace

Faults draw_faults(World& world, std::uint64_t seed) {
  Faults faults;
  faults.nodes_are_checked = seed % 6 == 5;
  faults.workers_go_on = seed % 5 == 2;
  faults.restarts_asked = seed % 7 == 4;
  world.one_in(8) ? draw_mild(world, faults) : draw_harm(world, faults);
  if (seed % 4 == 3) draw_etcd(world, faults);
  faults.etcd_clocks_are_wrong = seed % 28 == 27;
  return faults;
}

Plan draw_plan(World& world, const Faults& faults, Duration faults_for) {
  Plan plan;
  if (world.one_in(4)) plan.ranks = world.one_in(2) ? Ranks::wished : Ranks::insisted;
  plan.job = draw_settings(world, faults, plan.ranks);
  plan.lease = one_of<std::chrono::nanoseconds, 6>(world, {1s, 3s, 3s, 15s, 15s, 15s});
  // A SYN that is lost is sent again after a second: no lease is so short where nobody must notice.
  if (faults.are_mild) plan.lease = std::max<std::chrono::nanoseconds>(plan.lease, 3s);
  // Another leader is there 5 s after the last word of one that is gone, at the latest.
  if (faults.are_mild && faults.over_etcd) plan.lease = 15s;
  plan.leases_differ = !faults.are_mild && world.one_in(4);
  plan.lost_timeout = !faults.are_mild && world.one_in(6) ? 20s : 300s;
  plan.grace_period = one_of<std::chrono::milliseconds, 4>(world, {0ms, 500ms, 5s, 5s});
  if (world.one_in(3)) plan.secret = "open sesame";
  plan.snapshots = world.one_in(4) ? rdzv::SnapshotSettings{20, 8} : rdzv::SnapshotSettings{0, 1};
  plan.unread_max = world.one_in(2) ? std::size_t{1} << 20 : 1'000 + world.below(3'000);
  plan.delay_most = world.one_in(4) ? 40ms : 2ms;
  plan.hiccup_most = std::min<Duration>(1s, plan.lease / (faults.are_mild ? 20 : 3));
  plan.work = 1s + world.up_to(one_of<Duration, 3>(world, {30s, 5min, 20min}));
  plan.bad_batch = world.up_to(std::min<Duration>(plan.work, 30s));
  if (world.one_in(2)) plan.heals_after = 10s + world.up_to(faults_for - 10s);
  return plan;
}

}  // namespace ddprun::sim
