// What goes wrong on the way between an agent and the service.
#include <vector>

#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

void SimJob::harm_link(Agent& victim) {
  switch (world_.below(6)) {
    case 0:
      if (faults_.network_cut && faults_.links_slow && world_.one_in(2)) {
        slow_down(victim);
      } else if (faults_.network_cut) {
        cut(victim, draw_way(), draw_cut());
      }
      break;
    case 1:
      if (faults_.links_slow) slow_down(victim);
      break;
    case 2:
      if (faults_.connections_break) break_connection(victim);
      break;
    case 3:
      if (faults_.firewall_rejects) reject(victim, draw_cut());
      break;
    case 4:
      if (victim.host->is_forwarded) end_forwarder(victim);
      break;
    default:
      if (faults_.readers_slow) slow_reader(victim, world_.up_to(2s), world_.up_to(1min));
      break;
  }
}

Cut SimJob::draw_way() {
  constexpr Cut kCuts[] = {Cut::up, Cut::down, Cut::both};
  return kCuts[world_.below(3)];
}

Duration SimJob::draw_cut() { return world_.one_in(2) ? world_.up_to(5s) : world_.up_to(1min); }

void SimJob::cut(Agent& victim, Cut way, Duration lasts) {
  victim.link->set_cut(way);
  happened(way == Cut::both ? "cut" : "one-way cut");
  world_.note(victim.id + " is cut off");
  harmed(lasts);
  world_.after(lasts, [this, &victim] {
    world_.note(victim.id + " is connected again");
    victim.link->set_cut(Cut::none);
  });
}

/// A node does not hear that a round has formed, and before it is connected again a worker of
/// another one may fail.
void SimJob::miss_round() {
  const std::vector<Agent*> alive = this->alive();
  if (alive.empty()) return;
  cut(*alive[world_.below(alive.size())], Cut::both, draw_cut());
  fails_soon_ = true;
}

void SimJob::break_connection(Agent& victim) {
  const bool is_reset = world_.one_in(2);
  happened(is_reset ? "reset" : "half-open");
  world_.note(victim.id + (is_reset ? " has its connection reset" : " has a dead connection"));
  if (is_reset) return victim.link->place().reset(victim.link->connection());
  victim.link->place().sever(victim.link->connection(), world_.one_in(2));
}

void SimJob::reject(Agent& victim, Duration lasts) {
  happened("firewall");
  world_.note(victim.id + " is kept off by a firewall");
  harmed(lasts);
  victim.link->set_way(Way::rejected);
  world_.after(lasts, [&victim] { victim.link->set_way(Way::open); });
}

/// Its kernel ends both connections, as an agent's end would; later another one is started.
void SimJob::end_forwarder(Agent& victim) {
  const Duration lasts = world_.up_to(30s);
  happened("forwarder ends");
  world_.note(victim.id + " has no forwarder");
  harmed(lasts);
  victim.link->set_way(Way::refused);
  victim.link->place().end_forwarded(victim.link->connection());
  world_.after(lasts, [&victim] { victim.link->set_way(Way::open); });
}

void SimJob::slow_down(Agent& victim) {
  const Duration lasts = world_.up_to(30s);
  happened("slow link");
  harmed(lasts + plan_.lease);  // until clocks are known well again
  victim.link->set_delay(world_.one_in(2) ? Duration(6s) : world_.up_to(6s));
  world_.note(victim.id + " has a slow link");
  world_.after(lasts, [&victim] { victim.link->set_delay(0s); });
  // What is on its way back then still arrives, long after the service has heard the last word.
  if (!faults_.network_cut) return;
  world_.after(lasts / 2, [this, &victim] {
    if (harm_) cut(victim, Cut::up, 30s + world_.up_to(30s));
  });
}

void SimJob::slow_reader(Agent& victim, Duration pause, Duration lasts) {
  happened("slow reader");
  harmed(lasts);
  world_.note(victim.id + " reads slowly");
  victim.link->set_reading_pause(pause);
  world_.after(lasts, [&victim] { victim.link->set_reading_pause(0s); });
}

}  // namespace ddprun::sim
