// Many clients that start at once: the start-up patterns of process groups, crowds that wait for
// one key, and the waking of many waiters.
#include <limits>
#include <map>

#include "bench/store/scenarios.hpp"
#include "bench/store/storm_scripts.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {
namespace {

constexpr std::chrono::seconds kGiveUp(100);

struct Times {
  std::vector<double> wall_ms, cpu_ms;
  double messages = 0;
  void add(const Played& played, double cpu_seconds) {
    wall_ms.push_back(played.seconds * 1e3);
    cpu_ms.push_back(cpu_seconds * 1e3);
    messages = static_cast<double>(played.messages);
  }
};

/// One row for each server, with its times over the floor's.
void write(Report& report, const std::map<std::string, Times>& times, const Settings& settings,
           const Report::Row& front) {
  const auto floor = times.find("floor");
  for (const ServerKind& kind : settings.servers) {
    const auto found = times.find(kind.name);
    if (found == times.end()) continue;
    const Times& own = found->second;
    const double floor_wall = floor == times.end() ? 0 : median(floor->second.wall_ms);
    const double floor_cpu = floor == times.end() ? 0 : median(floor->second.cpu_ms);
    Report::Row row = front;
    row.insert(row.end(), {{"server", kind.name},
                           {"messages", own.messages},
                           {"wall_ms", median(own.wall_ms)},
                           {"cpu_ms", median(own.cpu_ms)},
                           {"x_floor_wall", ratio(median(own.wall_ms), floor_wall)},
                           {"x_floor_cpu", ratio(median(own.cpu_ms), floor_cpu)}});
    report.row(row);
  }
}

void storm(const Settings& settings, Report& report, const std::string& pattern,
           std::uint32_t ranks) {
  const std::unique_ptr<Script> script = make_storm(pattern, ranks);
  std::map<std::string, Times> times;
  // Small ones are over in a millisecond: more rounds for a steady median.
  const int rounds = ranks <= 64 ? settings.rounds * 4 : ranks <= 256 ? settings.rounds : 3;
  for (int round = 0; round < rounds; ++round) {
    for (const ServerKind& kind : settings.servers) {
      if (kind.speech == Speech::redis) continue;
      if (times[kind.name].wall_ms.size() >= 3 && kind.name != "ours" && kind.name != "floor")
        continue;                                 // the peers are slow to start
      const auto server = start(settings, kind);  // a new one: a job finds an empty store
      server->settle();
      SwarmGroup swarm(swarm_options(*server, ranks), settings.threads);
      const double before = server->cpu_seconds();
      PlayLimits limits;
      limits.give_up = kGiveUp;
      const Played played = must_play(swarm, *server, *script, limits);
      times[kind.name].add(played, server->cpu_seconds() - before);
    }
  }
  write(report, times, settings, {{"pattern", pattern}, {"ranks", static_cast<double>(ranks)}});
}

}  // namespace

void run_storms(const Settings& settings, Report& report) {
  report.begin("storms", "ranks that start at once: connect to last reply, medians");
  for (const std::string pattern : {"gloo-2.6", "gloo-2.15", "gloo-v2", "nccl"}) {
    const bool quadratic = pattern != "nccl";
    for (const std::uint32_t ranks : settings.ranks) {
      if (quadratic && ranks > settings.gloo_ranks_max) continue;
      if (can_connect(settings, report, ranks)) storm(settings, report, pattern, ranks);
    }
  }
}

void run_crowds(const Settings& settings, Report& report) {
  report.begin("crowds", "each client: connect, validate, SET, WAIT for a key set last, GET");
  for (const std::uint32_t clients : settings.crowds) {
    if (!can_connect(settings, report, clients)) continue;
    std::map<std::string, Times> times;
    for (int round = 0; round < settings.rounds; ++round) {
      for (const ServerKind& kind : settings.servers) {
        if (kind.speech == Speech::redis) continue;
        const bool peer = kind.name == "libuv" || kind.name == "legacy";
        if (peer && (round > 0 || clients > settings.peer_crowd_max)) continue;
        const auto server = start(settings, kind);
        server->settle();
        SwarmGroup swarm(swarm_options(*server, clients), settings.threads);
        const double before = server->cpu_seconds();
        PlayLimits limits;
        limits.give_up = kGiveUp;
        const Played played = must_play(
            swarm, *server, CrowdScript(clients, static_cast<std::uint32_t>(round)), limits);
        times[kind.name].add(played, server->cpu_seconds() - before);
      }
    }
    write(report, times, settings, {{"clients", static_cast<double>(clients)}});
  }
}

void run_wake_ups(const Settings& settings, Report& report) {
  report.begin("wake-ups", "one SET to the last waiter's byte, medians");
  for (const std::uint32_t clients : settings.crowds) {
    if (!can_connect(settings, report, clients)) continue;
    std::map<std::string, Times> times;
    for (int round = 0; round < settings.rounds; ++round) {
      for (const ServerKind& kind : settings.servers) {
        if (kind.speech == Speech::redis) continue;
        const bool peer = kind.name == "libuv" || kind.name == "legacy";
        if (peer && (round > 0 || clients > settings.peer_crowd_max)) continue;
        const auto server = start(settings, kind);
        SwarmGroup swarm(swarm_options(*server, clients), settings.threads);
        PlayLimits limits;
        limits.give_up = kGiveUp;
        must_play(swarm, *server, AwaitScript(0), limits);
        server->settle();
        const double before = server->cpu_seconds();
        const Played played = must_play(swarm, *server, WakeScript(0), limits);
        times[kind.name].add(played, server->cpu_seconds() - before);
      }
    }
    write(report, times, settings, {{"waiters", static_cast<double>(clients)}});
  }
}

}  // namespace ddprun::bench
