// Requests/s, latency and server CPU per request, for each request and number of connections.
#include <algorithm>
#include <list>
#include <map>
#include <optional>

#include "bench/store/scenarios.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {
namespace {

constexpr std::uint32_t kOwnFiles = 200;

struct Sample {
  std::vector<double> cpu_us, per_second, p50, p99, p999, busy;
  void add(const Played& played, double cpu_seconds) {
    const auto replies = static_cast<double>(std::max<std::uint64_t>(played.latency.total(), 1));
    cpu_us.push_back(cpu_seconds / replies * 1e6);
    per_second.push_back(replies / played.seconds);
    p50.push_back(played.latency.quantile_us(0.5));
    p99.push_back(played.latency.quantile_us(0.99));
    p999.push_back(played.latency.quantile_us(0.999));
    busy.push_back(cpu_seconds / played.seconds);
  }
};

/// Keeps swarms connected from one turn to the next, as far as the generator's descriptors last.
class SwarmPool {
 public:
  SwarmPool(const Settings& settings, std::uint32_t clients)
      : settings_(settings), clients_(clients) {}

  SwarmGroup& of(const Server& server) {
    for (auto& [owner, swarm] : swarms_) {
      if (owner == &server) return swarm;
    }
    while (!swarms_.empty() &&
           (swarms_.size() + 1) * clients_ + kOwnFiles > settings_.open_files_max) {
      swarms_.pop_front();
    }
    SwarmOptions options = swarm_options(server, clients_);
    options.spin = settings_.spin;
    auto& added = swarms_.emplace_back(&server, SwarmGroup(options, settings_.threads));
    must_play(added.second, server, HelloScript(server.speech()), {});
    return added.second;
  }

 private:
  const Settings& settings_;
  std::uint32_t clients_;
  std::list<std::pair<const Server*, SwarmGroup>> swarms_;  ///< oldest first
};

using Samples = std::map<std::string, Sample>;  ///< by server

Samples take_turns(const Settings& settings, const std::vector<std::unique_ptr<Server>>& servers,
                   SwarmPool& pool, Op op, std::uint32_t batch) {
  Samples samples;
  for (int round = 0; round < settings.rounds; ++round) {
    for (const auto& server : servers) {
      if (!has(server->speech(), op)) continue;
      SwarmGroup& swarm = pool.of(*server);
      const RateScript script(server->speech(), op, batch);
      PlayLimits limits;
      limits.measure = settings.measure / 4;  // warms caches and the scheduler up
      must_play(swarm, *server, script, limits);
      limits.measure = settings.measure;
      const double before = server->cpu_seconds();
      const Played played = must_play(swarm, *server, script, limits);
      samples[server->name()].add(played, server->cpu_seconds() - before);
    }
  }
  return samples;
}

std::vector<std::unique_ptr<Server>> start_filled(const Settings& settings) {
  std::vector<std::unique_ptr<Server>> servers;
  for (const ServerKind& kind : settings.servers) {
    servers.push_back(start(settings, kind));
    SwarmGroup one(swarm_options(*servers.back(), 1), 1);
    must_play(one, *servers.back(), HelloScript(kind.speech), {});
    must_play(one, *servers.back(), FillScript(kind.speech), {});
  }
  return servers;
}

/// The median over the rounds of how many times as much CPU as `ours` this server used.
double cpu_over_ours(const Sample& sample, const Sample& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(sample.cpu_us.size(), ours.cpu_us.size()); ++i)
    ratios.push_back(ratio(sample.cpu_us[i], ours.cpu_us[i]));
  return ratios.empty() ? ratio(0, 0) : median(ratios);
}

const Sample& ours_of(const Samples& samples) {
  static const Sample none;
  const auto found = samples.find("ours");
  return found == samples.end() ? none : found->second;
}

}  // namespace

void run_rates(const Settings& settings, Report& report) {
  report.begin("rates",
               "closed loop, medians of rounds in turns; x_ours: server CPU per request over ours");
  const auto servers = start_filled(settings);
  for (const std::uint32_t connections : settings.connections) {
    if (!can_connect(settings, report, connections)) continue;
    SwarmPool pool(settings, connections);
    for (const Op op : settings.ops) {
      const Samples samples = take_turns(settings, servers, pool, op, 1);
      for (const auto& server : servers) {
        const auto found = samples.find(server->name());
        if (found == samples.end()) continue;
        const Sample& sample = found->second;
        report.row({{"connections", static_cast<double>(connections)},
                    {"request", std::string(name_of(op))},
                    {"server", server->name()},
                    {"requests/s", median(sample.per_second)},
                    {"p50_us", median(sample.p50)},
                    {"p99_us", median(sample.p99)},
                    {"p99.9_us", median(sample.p999)},
                    {"cpu_us", median(sample.cpu_us)},
                    {"x_ours", cpu_over_ours(sample, ours_of(samples))},
                    {"busy", median(sample.busy)}});
      }
    }
  }
}

void run_pipelines(const Settings& settings, Report& report) {
  constexpr std::uint32_t kConnections = 10;
  report.begin("pipelines",
               "requests in one segment; segments: that one batch's replies came in (TCP_INFO)");
  const auto servers = start_filled(settings);
  for (const Op op : {Op::get, Op::check}) {
    for (const std::uint32_t batch : {1U, 8U, 32U}) {
      SwarmPool pool(settings, kConnections);
      const Samples samples = take_turns(settings, servers, pool, op, batch);
      for (const auto& server : servers) {
        SwarmGroup one(swarm_options(*server, 1), 1);
        must_play(one, *server, HelloScript(server->speech()), {});
        const std::uint64_t before = one.segments_received();
        PlayLimits limits;
        limits.measure = settings.measure / 4;
        const Played played =
            must_play(one, *server, RateScript(server->speech(), op, batch), limits);
        const auto segments = static_cast<double>(one.segments_received() - before);
        const auto batches = static_cast<double>(played.latency.total());
        const Sample& sample = samples.at(server->name());
        report.row({{"request", std::string(name_of(op))},
                    {"batch", static_cast<double>(batch)},
                    {"server", server->name()},
                    {"requests/s", median(sample.per_second) * batch},
                    {"cpu_us", median(sample.cpu_us) / batch},
                    {"x_ours", cpu_over_ours(sample, ours_of(samples))},
                    {"segments", segments / batches}});
      }
    }
  }
}

}  // namespace ddprun::bench
