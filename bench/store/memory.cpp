// What connections cost a server in memory, and what idle ones cost the requests of others.
#include <algorithm>

#include "bench/store/scenarios.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {
namespace {

constexpr std::uint32_t kComing = 1000;
constexpr std::uint32_t kActive = 50;

void idle_memory(const Settings& settings, Report& report, const ServerKind& kind) {
  for (std::uint32_t clients : {1000U, 10'000U, connections_max(settings) - 200}) {
    if (clients + 200 > connections_max(settings) || clients < 100) continue;
    const auto server = start(settings, kind);
    SwarmGroup few(swarm_options(*server, 50), 1);  // buffers that a server makes once
    must_play(few, *server, HelloScript(kind.speech), {});
    server->settle();
    const double before = server->resident_bytes();
    SwarmGroup idle(swarm_options(*server, clients), settings.threads);
    must_play(idle, *server, HelloScript(kind.speech), {});
    server->settle();
    const double bytes = server->resident_bytes() - before;
    report.row({{"what", std::string("idle")},
                {"server", kind.name},
                {"connections", static_cast<double>(clients)},
                {"bytes_each", bytes / clients},
                {"total_KiB", server->resident_bytes() / 1024}});
  }
}

/// Rounds of connections that come, say hello and leave; bytes of growth since the tenth round.
void churn(const Settings& settings, Report& report, const ServerKind& kind, int rounds) {
  const auto server = start(settings, kind);
  double at_ten = 0;
  double now = 0;
  for (int round = 1; round <= rounds; ++round) {
    {
      SwarmOptions options = swarm_options(*server, kComing);
      options.abrupt = round % 2 == 0;  // both ways of leaving
      SwarmGroup coming(options, settings.threads);
      must_play(coming, *server, HelloScript(kind.speech), {});
    }
    if (round != 10 && round != rounds) continue;
    server->settle();
    now = server->resident_bytes();
    if (round == 10) at_ten = now;
  }
  report.row({{"what", std::string("come and go")},
              {"server", kind.name},
              {"rounds", static_cast<double>(rounds)},
              {"KiB_after_10", at_ten / 1024},
              {"KiB_at_end", now / 1024},
              {"bytes_each", (now - at_ten) / (static_cast<double>(rounds - 10) * kComing)}});
}

}  // namespace

void run_memory(const Settings& settings, Report& report) {
  report.begin("memory", "private memory that the server process has written to");
  for (const ServerKind& kind : settings.servers) idle_memory(settings, report, kind);
  for (const ServerKind& kind : settings.servers) churn(settings, report, kind, 100);
}

void run_idle_cost(const Settings& settings, Report& report) {
  report.begin("idle-cost", "server CPU of one GET by 50 clients beside idle connections");
  const std::uint32_t most = connections_max(settings) - kActive;
  for (const ServerKind& kind : settings.servers) {
    const auto server = start(settings, kind);
    SwarmGroup active(swarm_options(*server, kActive), settings.threads);
    must_play(active, *server, HelloScript(kind.speech), {});
    must_play(active, *server, FillScript(kind.speech), {});
    std::vector<std::unique_ptr<SwarmGroup>> idle;
    for (std::uint32_t quarter = 0; quarter <= 4; ++quarter) {
      double connect_us = 0;
      if (quarter > 0) {
        idle.push_back(
            std::make_unique<SwarmGroup>(swarm_options(*server, most / 4), settings.threads));
        PlayLimits patient;
        patient.give_up = std::chrono::seconds(100);
        const double before = server->cpu_seconds();
        must_play(*idle.back(), *server, HelloScript(kind.speech), patient);
        connect_us = (server->cpu_seconds() - before) / (most / 4) * 1e6;
      }
      std::vector<double> cpu_us;
      for (int round = 0; round < settings.rounds; ++round) {
        PlayLimits limits;
        limits.measure = settings.measure;
        const double before = server->cpu_seconds();
        const Played played = must_play(active, *server, RateScript(kind.speech, Op::get), limits);
        cpu_us.push_back((server->cpu_seconds() - before) /
                         static_cast<double>(std::max<std::uint64_t>(played.messages, 1)) * 1e6);
      }
      report.row({{"server", kind.name},
                  {"idle", static_cast<double>(quarter * (most / 4))},
                  {"cpu_us", median(cpu_us)},
                  {"connect_cpu_us", connect_us}});
    }
  }
}

}  // namespace ddprun::bench
