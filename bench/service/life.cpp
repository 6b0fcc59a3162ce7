#include "bench/service/life.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/service/agent_swarm.hpp"
#include "bench/store/server.hpp"
#include "bench/store/storm_scripts.hpp"
#include "bench/store/swarm.hpp"
#include "bench/support/measure.hpp"
#include "rendezvous/etcd/etcd_client.hpp"
#include "rendezvous/etcd/etcd_url.hpp"

namespace ddprun::bench {

namespace fs = std::filesystem;

namespace {

/// One address has about 28,000 ports.
constexpr std::uint32_t kClientsOfAddress = 10'000;

constexpr std::uint32_t kArrivalsOfAddress = 100;

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

/// The journal of one life, below a prefix of its own.
class EtcdPrefix {
 public:
  explicit EtcdPrefix(std::vector<Endpoint> members)
      : members_(std::move(members)),
        prefix_(
            fmt::format("bench_service.{}.{}", getpid(), Clock::now().time_since_epoch().count())),
        client_(members_, [] { return false; }) {}
  ~EtcdPrefix() {
    static_cast<void>(
        client_.txn({{}, {rdzv::EtcdDelete{prefix_ + "/", prefix_ + "0"}}, {}}, kLimit));
  }
  EtcdPrefix(const EtcdPrefix&) = delete;
  EtcdPrefix& operator=(const EtcdPrefix&) = delete;

  [[nodiscard]] std::string option() const {
    std::string text = "--journal=" + std::string(rdzv::kEtcdScheme);
    for (const Endpoint& member : members_)
      text += to_string(member) + (&member == &members_.back() ? "/" : ",");
    return text + prefix_;
  }
  /// Changes in the whole etcd, of which nobody else should be a user meanwhile.
  [[nodiscard]] double changes() {
    const auto page = client_.range({prefix_ + "/leader", "", 1, 0}, kLimit);
    if (!page) throw std::runtime_error(page.error().reason);
    return static_cast<double>(page->revision);
  }

 private:
  static constexpr rdzv::Etcd::Limit kLimit{5'000};

  std::vector<Endpoint> members_;
  std::string prefix_;
  rdzv::EtcdClient client_;
};

/// It leads from then on.
void wait_for_leader(const Server& server) {
  const std::string ask = fmt::format("'{}/rdzvd' --status --endpoint=127.0.0.1:{} >/dev/null 2>&1",
                                      own_folder(), server.port());
  const auto until = Clock::now() + std::chrono::seconds(30);
  while (std::system(ask.c_str()) != 0) {
    if (Clock::now() > until) throw std::runtime_error("rdzvd does not lead within 30 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
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
  std::optional<EtcdPrefix> etcd;
  if (!kind.etcd.empty()) protection.push_back(etcd.emplace(kind.etcd).option());
  const std::string as_it_was = folder.path() + "/as_it_was";
  {
    const auto server = start_rdzvd(settings, state_dir, protection);
    if (etcd) wait_for_leader(*server);
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
    // While rdzvd waits for etcd, many arrive; each address has a share of the places for them.
    if (etcd) options.source_addresses = 1 + settings.agents / kArrivalsOfAddress;
    options.encrypter = kind.encrypter;
    AgentSwarm agents(options);
    double seen = etcd ? etcd->changes() : 0;
    const auto changes = [&] {  // since the last call
      const double now = etcd ? etcd->changes() : 0;
      return now - std::exchange(seen, now);
    };
    life.form = cost_of(*server, [&] { return agents.form(); });
    life.form_changes = changes();
    life.memory_bytes = server->resident_bytes() - memory;
    if (kind.has_journal) life.first_round_bytes = journal_bytes(state_dir);
    idle(settings, *server, agents, life);
    life.idle_changes = changes();
    life.form_again = cost_of(*server, [&] { return agents.form_again(); });
    life.form_again_changes = changes();
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
