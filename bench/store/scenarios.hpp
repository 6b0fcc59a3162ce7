// The scenarios of bench_store. Each starts the servers that it needs, lets them take turns, and
// writes its rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/store/rate_scripts.hpp"
#include "bench/store/report.hpp"
#include "bench/store/server.hpp"
#include "bench/store/swarm.hpp"

namespace ddprun::bench {

struct Settings {
  std::vector<ServerKind> servers;
  std::vector<Op> ops;
  std::vector<std::uint32_t> connections;
  std::vector<std::uint32_t> ranks;        ///< of start-up storms
  std::vector<std::uint32_t> crowds;       ///< clients that come at once
  std::uint32_t gloo_ranks_max = 512;      ///< all-to-all is quadratic
  std::uint32_t peer_crowd_max = 10'000;   ///< the legacy server needs minutes for more
  std::chrono::milliseconds measure{250};  ///< of one rate, once
  int rounds = 5;
  unsigned threads = 1;  ///< of the generator
  int server_cpu = -1;
  bool spin =
      false;  ///< the generator has CPUs of its own and never sleeps while rates are measured
  std::uint32_t open_files_max = 0;  ///< that this process, and so every server, may have
};

/// Requests/s, latency and CPU per request.
void run_rates(const Settings& settings, Report& report);
/// Several requests in one segment.
void run_pipelines(const Settings& settings, Report& report);
/// Ranks that start at once.
void run_storms(const Settings& settings, Report& report);
/// Clients that come at once, wait for one key and get it; and the waking of many waiters.
void run_crowds(const Settings& settings, Report& report);
void run_wake_ups(const Settings& settings, Report& report);
/// Memory for idle connections, and for connections that come and go.
void run_memory(const Settings& settings, Report& report);
/// What one request costs beside idle connections, up to the limit of open files.
void run_idle_cost(const Settings& settings, Report& report);
/// Whether a connection costs a look-up of its address.
void run_look_ups(const Settings& settings, Report& report);

// What they share.

/// Connections that fit beside what a process needs for itself.
std::uint32_t connections_max(const Settings& settings);
/// Whether that many connections fit; prints a line where they do not.
bool can_connect(const Settings& settings, Report& report, std::uint32_t clients);
std::unique_ptr<Server> start(const Settings& settings, const ServerKind& kind);
SwarmOptions swarm_options(const Server& server, std::uint32_t clients);
/// Plays and stops the program with the server's name where it did not go as the script says.
Played must_play(SwarmGroup& swarm, const Server& server, const Script& script,
                 const PlayLimits& limits);
/// `value` of the server called `name` over that of "ours"; NaN where either is missing.
double ratio(double value, double ours);

}  // namespace ddprun::bench
