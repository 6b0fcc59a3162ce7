// What goes wrong in a history: where and when its faults come.
#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

namespace {

/// Workers that die with their agent and its warden: by a signal of the kernel, at once.
constexpr Duration kDieWithin = 40ms;
constexpr std::size_t kAgentsMost = 16;

}  // namespace

Fate SimJob::draw_fate() {
  if (std::exchange(fails_soon_, false)) return {Fate::Kind::fails, world_.up_to(2s)};
  if (harm_ && faults_.bad_batch && world_.one_in(3) && !rounds_.empty()) {
    const auto at = rounds_.rbegin()->second.formed_at + 1s + plan_.bad_batch + world_.up_to(300ms);
    return {Fate::Kind::fails, std::max<Duration>(at - world_.now(), 10ms)};
  }
  if (harm_ && faults_.workers_fail && world_.one_in(8))
    return {Fate::Kind::fails, world_.up_to(std::min<Duration>(plan_.work, 1min))};
  if (harm_ && faults_.workers_hang && world_.one_in(20))
    return {Fate::Kind::hangs, world_.up_to(std::min<Duration>(plan_.work, 1min))};
  return {Fate::Kind::succeeds, plan_.work + world_.up_to(100ms)};
}

CheckFate SimJob::draw_check() {
  const bool goes_wrong = harm_ && !faults_.are_mild && world_.one_in(6);
  if (goes_wrong && world_.one_in(3)) return {false, kCheckTimeout};
  return {!goes_wrong, world_.up_to(2s)};
}

/// A node that has failed its check may be started again, as by the scheduler of the cluster.
void SimJob::check_ended(Agent& agent, bool passed) {
  agent.is_sound = passed;
  agent.is_sound_told = false;
  agent.is_unsound = !passed;
  happened(passed ? "check passed" : "check failed");
  if (!passed && world_.one_in(2)) come_back(*agent.host, 30s);
}

void SimJob::do_harm() {
  if (!harm_ || history_.outcome) return;
  world_.after(world_.up_to(20s), [this] { do_harm(); });
  const std::vector<Agent*> alive = this->alive();
  if (alive.empty()) return;
  if (faults_.service_forgets && world_.one_in(3)) return harm_service();
  if (cluster_ && world_.one_in(3)) return harm_cluster();
  Agent& victim = *alive[world_.below(alive.size())];
  const std::uint64_t what = world_.below(16);
  if (what == 0) {
    if (faults_.service_crashes && service_) harm_service();
  } else if (what < 9) {
    harm_node(victim);
  } else {
    harm_link(victim);
  }
}

void SimJob::harm_node(Agent& victim) {
  switch (world_.below(8)) {
    case 0:
      if (faults_.nodes_crash) drop(victim, false, world_.one_in(2) ? kDieWithin : Duration(0));
      break;
    case 1:
      if (faults_.nodes_vanish) drop(victim, true);
      break;
    case 2:
      if (faults_.nodes_come && agents_.size() < kAgentsMost) add_newcomer();
      break;
    case 3:
      if (faults_.restarts_asked && world_.one_in(2)) return ask_restart(victim);
      if (faults_.nodes_leave) leave(victim, SIGTERM);
      break;
    case 4:
      if (faults_.cancelled && world_.one_in(4)) leave(victim, SIGINT);
      break;
    case 5:
      if (faults_.agents_freeze) freeze(victim);
      break;
    case 6:
      if (faults_.hosts_sleep) put_to_sleep(victim);
      break;
    default:
      if (faults_.hosts_reboot) reboot(victim);
      break;
  }
}

/// One at a time, each shorter than half a lease, with time between them for a whole one.
void SimJob::do_mild_harm() {
  if (!harm_ || history_.outcome) return;
  Duration lasts{0};
  const Duration half = plan_.lease / 2;
  const std::vector<Agent*> alive = this->alive();
  if (!alive.empty()) {
    Agent& victim = *alive[world_.below(alive.size())];
    const auto draw = [&](bool has_fault, Duration longest) {
      if (has_fault) lasts = world_.up_to(longest);
      return has_fault;
    };
    switch (world_.below(6)) {
      case 0:
        if (draw(faults_.network_cut, half)) cut(victim, draw_way(), lasts);
        break;
      case 1:
        if (cluster_) {
          lasts = do_mild_harm_to_cluster();
        } else if (draw(faults_.service_crashes,
                        world_.one_in(2) ? Duration(2s) : Duration(1min))) {
          crash_service(lasts);
        }
        break;
      case 2:
        if (faults_.connections_break) break_connection(victim);
        break;
      case 3:
        if (draw(faults_.firewall_rejects, half)) {
          reject(victim, lasts);
          victim.link->place().reset(victim.link->connection());
        }
        break;
      case 4:
        if (draw(faults_.readers_slow, half)) slow_reader(victim, plan_.lease / 20, lasts);
        break;
      default:
        if (!draw(faults_.links_slow, half)) break;
        happened("slow link");
        victim.link->set_delay(plan_.lease / 10);
        world_.after(lasts, [&victim] { victim.link->set_delay(0s); });
        break;
    }
  }
  world_.after(lasts + plan_.lease + 5s + world_.up_to(10s), [this] { do_mild_harm(); });
}

void SimJob::harmed(Duration lasts) {
  harmed_until_ = std::max(harmed_until_, world_.now() + lasts);
}

// ---- nodes ----

/// The process is gone; or the machine, which nobody says. `workers_within`: they end after it.
void SimJob::drop(Agent& agent, bool silently, Duration workers_within) {
  harmed();
  happened(silently ? "host lost" : "agent crash");
  const bool had_workers = agent.node->live_workers() > 0;
  world_.note(agent.id + (silently ? " vanishes" : " crashes"));
  agent.node->crash(workers_within);
  agent.link->end(silently);
  if (had_workers && !silently) lose(agent);
  disturbed();
  if (!healed_ && world_.one_in(4)) return;
  come_back(*agent.host, 40s);
}

/// With other words of the kernel for its boot and its time; often without a last word.
void SimJob::reboot(Agent& agent) {
  harmed();
  happened("reboot");
  world_.note(agent.id + ": its host reboots");
  agent.node->crash();
  agent.link->end(world_.one_in(3));
  draw_clock(*agent.host, true);
  come_back(*agent.host, 40s);
}

/// A node more than the job was begun with; now and then one that should not be there.
void SimJob::add_newcomer() {
  happened("new node");
  const std::string& other = hosts_[world_.below(hosts_.size())].name;
  const bool is_twin = faults_.strangers_come && world_.one_in(4);
  Host& host = new_host();
  if (is_twin) host.name = other;
  const auto nodes = static_cast<std::uint64_t>(plan_.job.max_nodes);
  if (plan_.ranks == Ranks::insisted || (plan_.ranks == Ranks::wished && world_.one_in(2)))
    host.node_rank = static_cast<int>(world_.below(nodes));
  if (host.node_rank) happened("node rank twice");
  Stranger stranger = Stranger::no;
  if (faults_.strangers_come && world_.one_in(2)) {
    constexpr Stranger kStrangers[] = {Stranger::other_nnodes, Stranger::other_settings,
                                       Stranger::other_secret, Stranger::no_secret};
    stranger = kStrangers[world_.below(plan_.secret.empty() ? 2 : 4)];
    // The first of a job would be the one that belongs there, and the others the strangers.
    if (stranger == Stranger::other_nnodes && history_.cells.empty()) stranger = Stranger::no;
    if (stranger != Stranger::no)
      happened(stranger == Stranger::other_settings ? "other settings" : "stranger");
  }
  add_node(host, stranger);
}

void SimJob::leave(Agent& leaver, int signal) {
  harmed();
  happened(signal == SIGTERM ? "node leaves" : "Ctrl-C");
  leaver.leaves = true;
  leaver.node->signal(signal);
  if (!world_.one_in(4)) return;
  world_.after(world_.up_to(3s), [&leaver, signal] {
    if (leaver.node->alive()) leaver.node->signal(signal);
  });
}

void SimJob::ask_restart(Agent& agent) {
  harmed();
  happened("restart asked for");
  agent.node->ask_restart();
}

void SimJob::freeze(Agent& victim) {
  const Duration lasts = world_.one_in(2) ? world_.up_to(2s) : world_.up_to(40s);
  harmed(lasts);
  happened("agent stopped");
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
  happened("host asleep");
  world_.note(victim.id + " sleeps");
  victim.node->suspend();
  victim.link->suspend();
  world_.after(lasts, [this, &victim] {
    if (!victim.node->suspended()) return;
    world_.note(victim.id + " wakes up");
    victim.link->resume();
    victim.node->resume();
  });
}

// ---- the service ----

/// All agents are stopped, so that nobody tells the next service of their workers, and as many new
/// ones come as the job may have.
void SimJob::be_replaced() {
  happened("all nodes replaced");
  for (Agent* agent : alive()) freeze(*agent);
  service_->crash(world_.up_to(1s), Disk::lost);
  for (int i = 0; i < plan_.job.max_nodes; ++i) {
    Host& host = new_host();
    if (plan_.ranks != Ranks::none) host.node_rank = i;
    add_node(host);
  }
}

void SimJob::harm_service() {
  const Duration away = world_.one_in(2) ? world_.up_to(2s) : world_.up_to(1min);
  if (faults_.service_has_no_journal && faults_.agents_freeze && faults_.nodes_come &&
      world_.one_in(2)) {
    be_replaced();
  } else if (faults_.service_has_no_journal) {
    happened("journal lost");
    service_->crash(away, Disk::lost);
  } else if (faults_.service_forgets && world_.one_in(2)) {
    constexpr Disk kDisks[] = {Disk::lost, Disk::flipped, Disk::flipped, Disk::old};
    const Disk disk = kDisks[world_.below(4)];
    happened(disk == Disk::old ? "journal old" : disk == Disk::lost ? "journal lost" : "bit wrong");
    service_->crash(away, disk);
  } else if (faults_.disk_fills && world_.one_in(2)) {
    happened("disk full");
    service_->fill_disk(world_.up_to(2min));
  } else {
    crash_service(away);
  }
}

/// With its journal.
void SimJob::crash_service(Duration away) {
  happened("service crash");
  if (world_.one_in(3)) {
    service_->crash_while_telling(away);
  } else if (world_.one_in(2)) {
    service_->crash_while_writing(away);
  } else {
    service_->crash(away, Disk::kept);
  }
}

}  // namespace ddprun::sim
