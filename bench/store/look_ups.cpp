// Whether a server asks for the name of a client. The resolver of the server's process is a
// socket of ours that never answers and counts what it is asked.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "bench/store/scenarios.hpp"

namespace ddprun::bench {
namespace {

constexpr const char* kResolver = "127.0.0.253";
constexpr std::uint32_t kSources = 9;

class SilentResolver {
 public:
  SilentResolver() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    inet_pton(AF_INET, kResolver, &addr.sin_addr);
    addr.sin_port = htons(53);
    if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) != 0)
      throw std::runtime_error("port 53 of 127.0.0.253 cannot be had (this needs root)");
    const int made = mkstemp(path_);
    if (made < 0) throw std::runtime_error("no temporary file");
    close(made);
    std::ofstream(path_) << "nameserver " << kResolver << "\n";
  }
  ~SilentResolver() { unlink(path_); }
  SilentResolver(const SilentResolver&) = delete;
  SilentResolver& operator=(const SilentResolver&) = delete;

  [[nodiscard]] std::string resolv_conf() const { return path_; }
  /// Questions since the last call.
  double questions() {
    char buffer[512];
    double count = 0;
    while (recv(fd_.get(), buffer, sizeof buffer, 0) > 0) ++count;
    return count;
  }

 private:
  UniqueFd fd_;
  char path_[32] = "/tmp/bench_store_XXXXXX";
};

void connect_all(const Settings& settings, Report& report, const ServerKind& kind,
                 std::uint32_t clients, SilentResolver* resolver) {
  Server::Surroundings surroundings;
  surroundings.cpu = settings.server_cpu;
  if (resolver != nullptr) surroundings.resolv_conf = resolver->resolv_conf();
  if (resolver != nullptr) resolver->questions();
  const Server server(kind, surroundings);
  SwarmOptions options = swarm_options(server, clients);
  options.source_addresses = kSources;
  SwarmGroup swarm(options, 1);
  PlayLimits limits;
  limits.give_up = std::chrono::seconds(100);
  const Played played = must_play(swarm, server, HelloScript(kind.speech), limits);
  Report::Row row = {{"server", kind.name},
                     {"resolver", std::string(resolver == nullptr ? "own" : "silent")},
                     {"clients", static_cast<double>(clients)},
                     {"wall_ms", played.seconds * 1e3}};
  row.emplace_back("questions", resolver == nullptr ? ratio(0, 0) : resolver->questions());
  report.row(row);
}

}  // namespace

void run_look_ups(const Settings& settings, Report& report) {
  report.begin(
      "look-ups",
      "clients from 127.0.0.1 to .9 connect, validate, PING; questions to a silent resolver");
  try {
    SilentResolver resolver;
    for (const ServerKind& kind : settings.servers) {
      // PyTorch's servers already ask when they start, for ten seconds each time.
      const bool peer = kind.name == "libuv" || kind.name == "legacy";
      if (!peer) connect_all(settings, report, kind, 3000, nullptr);
      connect_all(settings, report, kind, peer ? 100 : 3000, &resolver);
    }
  } catch (const std::runtime_error& error) {
    report.note(std::string("the rest is left out: ") + error.what());
  }
}

}  // namespace ddprun::bench
