// What a flood of connections with a wrong secret does to another job: its restarts while an rdzvd
// is calm, while 1,000 such connections a second reach it, and while as many reach a server that
// only takes and closes them, which shows what the flood itself costs the machine. In turns.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>

#include "bench/restart/job.hpp"
#include "proto/control_channel.hpp"
#include "rendezvous/tls/tls.hpp"

namespace bench = ddprun::bench;
namespace proto = ddprun::proto;
using bench::Clock;
using bench::Command;

namespace {

constexpr int kKillsATurn = 5;
constexpr std::size_t kOpenMax = 512;  // connections at once; more wait for an answer
constexpr const char* kRunId = "bench-two-nodes";

constexpr const char* kFooter = R"(
Each turn kills 5 workers of a job on two nodes without a flood (calm), 5 while the flood reaches a
server that only takes and closes its connections (flood, elsewhere), and 5 while it reaches the
rdzvd of the job. Printed are the times from a kill until both new workers run, and how many
connections were made and refused each second.

Examples:
  chrt -f 50 bench_flood            20 turns, 1,000 connections a second, without TLS
  chrt -f 50 bench_flood --tls
  bench_flood --tls 2 200           2 turns, 200 connections a second: does it work here?
)";

using Encrypter = std::shared_ptr<const proto::Encrypter>;

/// Shared with the child that floods.
struct Control {
  std::atomic<int> port{0};  // 0: no flood
  std::atomic<long> begun{0};
  std::atomic<long> refused{0};
};

struct Connection {
  proto::ControlChannel channel;
};

sockaddr_in loopback(int port) {
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  addr.sin_port = htons(static_cast<std::uint16_t>(port));
  return addr;
}

class Flood {
 public:
  /// Without an encrypter it does not encrypt.
  Flood(Control& control, int rate, Encrypter encrypter)
      : control_(control), interval_(1'000'000'000 / rate), encrypter_(std::move(encrypter)) {}

  [[noreturn]] void run() {
    auto next = Clock::now();
    while (true) {
      const int port = control_.port;
      const auto now = Clock::now();
      if (port == 0) next = now;
      // What could not be kept up with is not made up for: a burst would be another flood.
      if (now - next > std::chrono::milliseconds(20)) next = now;
      while (port != 0 && next <= now && open_.size() < kOpenMax) {
        begin(port);
        next += interval_;
      }
      poll_once();
    }
  }

 private:
  void begin(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const sockaddr_in addr = loopback(port);
    connect(fd, reinterpret_cast<const sockaddr*>(&addr), sizeof addr);
    proto::ControlChannel::Settings settings;
    settings.hello = proto::rendezvous_hello(kRunId);
    settings.secret = "a guess";
    if (encrypter_) settings.encryption = encrypter_->client({"", settings.secret, kRunId});
    open_.emplace(fd, Connection{proto::ControlChannel(std::move(settings))});
    ++control_.begun;
  }

  void poll_once() {
    entries_.clear();
    for (auto& [fd, one] : open_) {
      const bool writes = one.channel.output_bytes() > 0;
      entries_.push_back({fd, static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    if (poll(entries_.data(), entries_.size(), 1) <= 0) return;
    for (const pollfd& entry : entries_) {
      if (entry.revents != 0 && !serve(entry.fd, open_.at(entry.fd))) {
        close(entry.fd);
        open_.erase(entry.fd);
      }
    }
  }

  /// False: it is over.
  bool serve(int fd, Connection& one) {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = read(fd, buffer, sizeof buffer)) > 0) {
      one.channel.append({buffer, static_cast<std::size_t>(count)});
      // A message before the proof is answered can only be a refusal; with TLS an alert is.
      if (const auto body = one.channel.next(); !body || *body) {
        ++control_.refused;
        return false;
      }
    }
    if (count == 0 || (errno != EAGAIN && errno != ENOTCONN)) return false;
    const std::string output = one.channel.take_output();
    if (output.empty()) return true;
    const ssize_t sent = send(fd, output.data(), output.size(), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(output.size());
  }

  Control& control_;
  const std::chrono::nanoseconds interval_;
  const Encrypter encrypter_;
  std::map<int, Connection> open_;
  std::vector<pollfd> entries_;
};

/// In a child that ends with us.
template <class Body>
pid_t start_child(const Body& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

/// Takes each connection and closes it.
[[noreturn]] void take_and_close(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in addr = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&addr), sizeof addr) != 0) std::abort();
  if (listen(fd, 4096) != 0) std::abort();
  while (true) close(accept(fd, nullptr, nullptr));
}

struct Measured {
  const char* name;
  int port;
  std::vector<double> ms{};
  long begun = 0;
  long refused = 0;
  double seconds = 0;
};

bool kill_some(bench::Job& job, Control& control, Measured& measured) {
  control.port = measured.port;
  const long begun = control.begun;
  const long refused = control.refused;
  const auto begin = Clock::now();
  if (measured.port != 0) usleep(200'000);
  for (int i = 0; i < kKillsATurn; ++i) {
    const auto now = Clock::now().time_since_epoch().count();
    kill(job.worker(i & 1), SIGKILL);
    if (!job.wait_for_start(2)) return false;
    measured.ms.push_back(static_cast<double>(job.started_ns() - now) / 1e6);
    usleep(50'000);
  }
  measured.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  measured.begun += control.begun - begun;
  measured.refused += control.refused - refused;
  control.port = 0;
  usleep(100'000);  // what is still open ends
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What connections with a wrong secret do to the restarts of another job.");
  app.footer(kFooter);
  int turns = 20;
  int rate = 1'000;
  bool tls = false;
  app.add_option("TURNS", turns, "each with 15 kills")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("CONNECTIONS_A_SECOND", rate, "of the flood")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--tls", tls,
               "rdzvd with --tls, nodes with --rdzv-tls, and each connection of the flood begins a "
               "TLS handshake with the key of a wrong secret");
  CLI11_PARSE(app, argc, argv);
  Encrypter encrypter;
  if (tls) {
    const auto opened = ddprun::rdzv::open_tls();
    if (!opened) {
      std::fprintf(stderr, "bench_flood: --tls: %s\n", opened.error().c_str());
      return 1;
    }
    encrypter = *opened;
  }
  char folder[] = "/tmp/bench_flood_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string secret = std::string(folder) + "/secret";
  std::ofstream(secret) << "correct horse battery staple\n";
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  void* const shared =
      mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto& control = *new (shared) Control;
  const int port = bench::free_port();
  const int other_port = bench::free_port();
  std::vector<pid_t> children;
  children.push_back(start_child([&] { take_and_close(other_port); }));
  children.push_back(start_child([&] { Flood(control, rate, encrypter).run(); }));
  Command rdzvd{bench::own_folder() + "/rdzvd", "--host=127.0.0.1",
                "--port=" + std::to_string(port), "--secret-file=" + secret};
  if (tls) rdzvd.emplace_back("--tls");
  children.push_back(bench::start(rdzvd));
  std::array<Measured, 3> all{{{"calm", 0}, {"flood, elsewhere", other_port}, {"flood", port}}};
  bool ok = true;
  {
    Command node{bench::own_folder() + "/ddprun",
                 "--max-restarts=1000000",
                 "--restart-delay=0",
                 "--nproc-per-node=1",
                 "--nnodes=2",
                 "--rdzv-backend=c10d",
                 std::string("--rdzv-id=") + kRunId,
                 "--rdzv-endpoint=127.0.0.1:" + std::to_string(port),
                 "--rdzv-secret-file=" + secret};
    if (tls) node.emplace_back("--rdzv-tls");
    node.push_back(bench::own_folder() + "/bench_restart_worker");
    bench::Job job("two nodes", {node, node}, folder);
    ok = job.wait_for_start(2);
    for (int turn = 0; turn < turns && ok; ++turn) {
      for (Measured& measured : all) ok = ok && kill_some(job, control, measured);
    }
  }
  for (const Measured& one : all) {
    std::printf(
        "%-18s restart median %6.2f   p90 %6.2f   max %6.2f ms (%zu)   %6.0f connections a "
        "second, %.0f refused\n",
        one.name, bench::median(one.ms), bench::quantile(one.ms, 0.9), bench::quantile(one.ms, 1),
        one.ms.size(), static_cast<double>(one.begun) / one.seconds,
        static_cast<double>(one.refused) / one.seconds);
  }
  std::printf("flood / calm, medians: %.3fx; flood / flood elsewhere: %.3fx\n",
              bench::median(all[2].ms) / bench::median(all[0].ms),
              bench::median(all[2].ms) / bench::median(all[1].ms));
  for (const pid_t pid : children) kill(pid, SIGTERM);
  for (const pid_t pid : children) waitpid(pid, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!ok) std::fprintf(stderr, "bench_flood: the job did not come back within 60 s\n");
  return ok ? 0 : 1;
}
