// What goes wrong in a history: which faults it has, where and when they come.
#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

Faults draw_faults(World& world) {
  Faults faults;
  if (world.one_in(8)) return faults;
  for (bool* fault :
       {&faults.workers_fail, &faults.workers_hang, &faults.nodes_crash, &faults.nodes_vanish,
        &faults.nodes_come, &faults.nodes_leave, &faults.agents_freeze})
    *fault = world.one_in(2);
  faults.cancelled = world.one_in(6);
  faults.clocks_differ = world.one_in(4);
  faults.network_cut = world.one_in(2);
  faults.links_slow = world.one_in(2);
  faults.links_hiccup = world.one_in(3);
  faults.service_crashes = world.one_in(2);
  faults.bad_batch = faults.workers_fail && world.one_in(3);
  faults.hosts_sleep = world.one_in(3);
  faults.service_forgets = world.one_in(6);
  if (!faults.service_forgets) return faults;
  faults.service_crashes = true;
  faults.service_has_no_journal = world.one_in(2);
  if (faults.service_has_no_journal) return faults;
  faults.disk_fills = world.one_in(2);
  // A node that is new in every respect cannot tell a service without memory of the others. That a
  // stopped agent goes is its warden's doing.
  faults.nodes_crash = faults.nodes_vanish = faults.nodes_come = faults.agents_freeze =
      faults.hosts_sleep = false;
  return faults;
}

Fate SimJob::draw_fate() {
  if (std::exchange(fails_soon_, false)) return {Fate::Kind::fails, world_.up_to(2s)};
  if (harm_ && faults_.bad_batch && world_.one_in(3) && !rounds_.empty()) {
    const auto at = rounds_.rbegin()->second.formed_at + 1s + bad_batch_ + world_.up_to(300ms);
    return {Fate::Kind::fails, std::max<Duration>(at - world_.now(), 10ms)};
  }
  if (harm_ && faults_.workers_fail && world_.one_in(8))
    return {Fate::Kind::fails, world_.up_to(std::min<Duration>(work_, 1min))};
  if (harm_ && faults_.workers_hang && world_.one_in(20))
    return {Fate::Kind::hangs, world_.up_to(std::min<Duration>(work_, 1min))};
  return {Fate::Kind::succeeds, work_ + world_.up_to(100ms)};
}

/// The process is gone; or the machine, which nobody says.
void SimJob::drop(Agent& agent, bool silently) {
  harmed();
  const bool had_workers = agent.node->live_workers() > 0;
  world_.note(agent.id + (silently ? " vanishes" : " crashes"));
  agent.node->crash();
  agent.link->end(silently);
  if (had_workers && !silently) lose(agent);
  if (world_.one_in(4)) return;
  world_.after(world_.up_to(40s), [this, name = agent.node->name()] {
    if (!history_.outcome) add_node(name);
  });
}

void SimJob::do_harm() {
  if (!harm_ || history_.outcome) return;
  world_.after(world_.up_to(20s), [this] { do_harm(); });
  std::vector<Agent*> alive;
  for (auto& [id, agent] : agents_)
    if (agent.node->alive()) alive.push_back(&agent);
  if (alive.empty()) return;
  if (faults_.service_forgets && world_.one_in(3)) return harm_service();
  Agent& victim = *alive[world_.below(alive.size())];
  switch (world_.below(10)) {
    case 0:
      if (faults_.nodes_crash) drop(victim, false);
      break;
    case 1:
      if (faults_.nodes_vanish) drop(victim, true);
      break;
    case 2:
      if (faults_.nodes_come && agents_.size() < 12) add_node(fmt::format("node{}", names_++));
      break;
    case 3:
      if (faults_.nodes_leave) leave(victim, SIGTERM);
      break;
    case 4:
      if (faults_.cancelled && world_.one_in(4)) leave(victim, SIGINT);
      break;
    case 5:
      if (faults_.network_cut && faults_.links_slow && world_.one_in(2)) {
        slow_down(victim);
      } else if (faults_.network_cut) {
        harm_network(victim);
      }
      break;
    case 6:
      if (faults_.service_crashes) harm_service();
      break;
    case 7:
      if (faults_.agents_freeze) freeze(victim);
      break;
    case 8:
      if (faults_.links_slow) slow_down(victim);
      break;
    case 9:
      if (faults_.hosts_sleep) put_to_sleep(victim);
      break;
    default:
      break;
  }
}

void SimJob::harmed(Duration lasts) {
  harmed_until_ = std::max(harmed_until_, world_.now() + lasts);
}

void SimJob::leave(Agent& leaver, int signal) {
  harmed();
  leaver.node->signal(signal);
}

void SimJob::freeze(Agent& victim) {
  const Duration lasts = world_.one_in(2) ? world_.up_to(2s) : world_.up_to(40s);
  harmed(lasts);
  world_.note(victim.id + " is stopped");
  victim.node->freeze();
  victim.link->freeze();
  world_.after(lasts, [this, &victim] {
    world_.note(victim.id + " goes on");
    victim.link->thaw();
    victim.node->thaw();
  });
}

void SimJob::put_to_sleep(Agent& victim) {
  if (victim.node->suspended()) return;
  const Duration lasts = world_.one_in(2) ? world_.up_to(5s) : world_.up_to(2min);
  harmed(lasts);
  world_.note(victim.id + " sleeps");
  victim.node->suspend();
  victim.link->suspend();
  world_.after(lasts, [this, &victim] {
    world_.note(victim.id + " wakes up");
    victim.link->resume();
    victim.node->resume();
  });
}

void SimJob::harm_network(Agent& victim) {
  constexpr Cut kCuts[] = {Cut::up, Cut::down, Cut::both};
  cut(victim, kCuts[world_.below(3)], draw_cut());
}

/// A node does not hear that a round has formed, and before it is connected again a worker of
/// another one may fail.
void SimJob::miss_round() {
  std::vector<Agent*> alive;
  for (auto& [id, agent] : agents_)
    if (agent.node->alive()) alive.push_back(&agent);
  if (alive.empty()) return;
  cut(*alive[world_.below(alive.size())], Cut::both, draw_cut());
  fails_soon_ = true;
}

Duration SimJob::draw_cut() { return world_.one_in(2) ? world_.up_to(5s) : world_.up_to(1min); }

void SimJob::cut(Agent& victim, Cut way, Duration lasts) {
  victim.link->set_cut(way);
  world_.note(victim.id + " is cut off");
  harmed(lasts);
  world_.after(lasts, [this, &victim] {
    world_.note(victim.id + " is connected again");
    victim.link->set_cut(Cut::none);
  });
}

void SimJob::slow_down(Agent& victim) {
  const Duration lasts = world_.up_to(30s);
  harmed(lasts + lease_);  // until clocks are known well again
  victim.link->set_delay(world_.one_in(2) ? Duration(6s) : world_.up_to(6s));
  world_.note(victim.id + " has a slow link");
  world_.after(lasts, [&victim] { victim.link->set_delay(0s); });
  // What is on its way back then still arrives, long after the service has heard the last word.
  if (faults_.network_cut)
    world_.after(lasts / 2, [this, &victim] { cut(victim, Cut::up, 30s + world_.up_to(30s)); });
}

/// All agents are stopped, so that nobody tells the next service of their workers, and as many new
/// ones come as the job may have.
void SimJob::be_replaced() {
  for (auto& [id, agent] : agents_)
    if (agent.node->alive()) freeze(agent);
  service_.crash(world_.up_to(1s), Disk::lost);
  for (int i = 0; i < settings_.max_nodes; ++i) add_node(fmt::format("node{}", names_++));
}

void SimJob::harm_service() {
  const Duration away = world_.one_in(2) ? world_.up_to(2s) : world_.up_to(1min);
  if (faults_.service_has_no_journal && faults_.agents_freeze && faults_.nodes_come &&
      world_.one_in(2)) {
    be_replaced();
  } else if (faults_.service_has_no_journal || (faults_.service_forgets && world_.one_in(2))) {
    const bool flipped = !faults_.service_has_no_journal && world_.one_in(2);
    service_.crash(away, flipped ? Disk::flipped : Disk::lost);
  } else if (faults_.disk_fills && world_.one_in(2)) {
    service_.fill_disk(world_.up_to(2min));
  } else if (world_.one_in(3)) {
    service_.crash_while_telling(away);
  } else if (world_.one_in(2)) {
    service_.crash_while_writing(away);
  } else {
    service_.crash(away, Disk::kept);
  }
}

}  // namespace ddprun::sim
