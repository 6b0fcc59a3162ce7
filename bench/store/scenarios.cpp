#include "bench/store/scenarios.hpp"

#include <unistd.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace ddprun::bench {

std::uint32_t connections_max(const Settings& settings) {
  constexpr std::uint32_t kOwnFiles = 64;
  return settings.open_files_max > kOwnFiles ? settings.open_files_max - kOwnFiles : 0;
}

bool can_connect(const Settings& settings, Report& report, std::uint32_t clients) {
  if (clients <= connections_max(settings)) return true;
  report.note(fmt::format("without {} connections: only {} files may be open (ulimit -Hn)", clients,
                          settings.open_files_max));
  return false;
}

std::unique_ptr<Server> start(const Settings& settings, const ServerKind& kind) {
  Server::Surroundings surroundings;
  surroundings.cpu = settings.server_cpu;
  // PyTorch's servers ask for the name of every client. Where the machine's resolver is slow that
  // would be all that is measured, so they get one that refuses at once.
  if ((kind.name == "libuv" || kind.name == "legacy") && geteuid() == 0)
    surroundings.resolv_conf = "/dev/null";
  return std::make_unique<Server>(kind, surroundings);
}

SwarmOptions swarm_options(const Server& server, std::uint32_t clients) {
  SwarmOptions options;
  options.port = server.port();
  options.clients = clients;
  options.floor = server.speech() == Speech::floor;
  options.abrupt = true;
  // Beyond half of an address's ports the kernel searches long for a free one at every connect.
  options.source_addresses = 1 + clients / 10'001;
  // Redis asks for a queue of 511, whatever the kernel would give.
  if (server.speech() == Speech::redis) options.connecting_max = 400;
  return options;
}

Played must_play(SwarmGroup& swarm, const Server& server, const Script& script,
                 const PlayLimits& limits) {
  Played played = swarm.play(script, limits);
  if (!played.error.empty())
    throw std::runtime_error(fmt::format("{}: {}", server.name(), played.error));
  return played;
}

double ratio(double value, double ours) {
  return ours > 0 && value > 0 ? value / ours : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace ddprun::bench
