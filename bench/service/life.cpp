#include "bench/service/life.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/service/agent_swarm.hpp"
#include "bench/store/server.hpp"
#include "bench/store/storm_scripts.hpp"
#include "bench/store/swarm.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {

namespace fs = std::filesystem;

namespace {

/// One address has about 28,000 ports.
constexpr std::uint32_t kClientsOfAddress = 10'000;

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& in) : path_(in + "/bench_service.XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error(fmt::format("cannot make a folder in {}", in));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr const char* kSecret = "correct horse battery staple";

std::string write_secret(const std::string& folder) {
  const std::string path = folder + "/secret";
  std::ofstream(path) << kSecret << "\n";
  fs::permissions(path, fs::perms::owner_read);
  return path;
}

std::unique_ptr<Server> start_rdzvd(const LifeSettings& settings, const std::string& state_dir,
                                    const std::vector<std::string>& more = {}) {
  ServerKind kind{"rdzvd", Speech::c10d, {own_folder() + "/rdzvd", "--listen=127.0.0.1:0"}, true};
  if (!state_dir.empty()) kind.command.push_back("--state-dir=" + state_dir);
  kind.command.insert(kind.command.end(), more.begin(), more.end());
  return std::make_unique<Server>(std::move(kind), Server::Surroundings{settings.server_cpu, ""});
}

double seconds_to_start(const LifeSettings& settings, const std::string& state_dir) {
  const auto begun = Clock::now();
  const auto server = start_rdzvd(settings, state_dir);
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double journal_bytes(const std::string& state_dir) {
  double bytes = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(state_dir))
    if (file.path().extension() == ".journal") bytes += static_cast<double>(file.file_size());
  return bytes;
}

/// `part` returns its seconds.
Cost cost_of(const Server& server, const std::function<double()>& part) {
  server.settle();
  const double before = server.cpu_seconds();
  Cost cost;
  cost.seconds = part();
  server.settle();  // what it has put off is of this part, too
  cost.cpu_seconds = server.cpu_seconds() - before;
  return cost;
}

void idle(const LifeSettings& settings, const Server& server, AgentSwarm& agents, Life& life) {
  server.settle();
  const double before = server.cpu_seconds();
  const auto begun = Clock::now();
  const std::int64_t sent = agents.keep_alive_for(settings.idle);
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  life.idle_cpu = (server.cpu_seconds() - before) / seconds;
  life.keep_alives_per_second = static_cast<double>(sent) / seconds;
}

}  // namespace

Life live(const LifeSettings& settings, const LifeKind& kind) {
  Life life;
  const TemporaryFolder folder(settings.folder);
  const std::string state_dir = kind.has_journal ? folder.path() + "/state" : "";
  std::vector<std::string> protection;
  if (kind.has_secret) protection.push_back("--secret-file=" + write_secret(folder.path()));
  if (kind.encrypter) protection.push_back("--tls");
  const std::string as_it_was = folder.path() + "/as_it_was";
  {
    const auto server = start_rdzvd(settings, state_dir, protection);
    server->settle();
    const double memory = server->resident_bytes();
    AgentSwarmOptions options;
    options.port = server->port();
    options.agents = settings.agents;
    options.source_addresses = 1 + settings.agents / (kClientsOfAddress + 1);
    if (kind.has_secret) {
      options.secret = kSecret;
      options.connecting_max = 100;  // proofs take turns of their own, all from few addresses
    }
    options.encrypter = kind.encrypter;
    AgentSwarm agents(options);
    life.form = cost_of(*server, [&] { return agents.form(); });
    life.memory_bytes = server->resident_bytes() - memory;
    if (kind.has_journal) life.first_round_bytes = journal_bytes(state_dir);
    idle(settings, *server, agents, life);
    life.form_again = cost_of(*server, [&] { return agents.form_again(); });
    if (kind.has_journal) {
      life.next_round_bytes = journal_bytes(state_dir) - life.first_round_bytes;
      fs::copy(state_dir, as_it_was);
    }
    life.end = cost_of(*server, [&] { return agents.end(); });
  }
  if (kind.has_journal) {
    life.start_seconds = seconds_to_start(settings, folder.path() + "/empty");
    life.replay_seconds = seconds_to_start(settings, as_it_was);
  }
  return life;
}

Cost crowd(const LifeSettings& settings) {
  const auto server = start_rdzvd(settings, "");
  SwarmOptions options;
  options.port = server->port();
  options.clients = settings.agents;
  options.source_addresses = 1 + settings.agents / (kClientsOfAddress + 1);
  Swarm clients(options);
  const CrowdScript script(settings.agents, 0);
  return cost_of(*server, [&] {
    const Played played = clients.play(script, {});
    if (!played.error.empty()) throw std::runtime_error("the store's crowd: " + played.error);
    return played.seconds;
  });
}

}  // namespace ddprun::bench
