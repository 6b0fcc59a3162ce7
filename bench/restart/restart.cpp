// From SIGKILL of one of two workers to both new workers running, and to the reaction (SIGTERM at
// the other one), with both on one node and with one on each of two: ddprun, with the rendezvous in
// an agent and in an rdzvd that keeps a journal, and torchrun where it is installed. All jobs live
// at once and are killed in turns.
#include <filesystem>
#include <memory>

#include "bench/restart/job.hpp"

namespace bench = ddprun::bench;
using bench::Command;

namespace {

/// A job of two workers, and what was measured of it.
struct Measured {
  Measured(std::string name, const std::vector<Command>& commands, const std::string& folder)
      : job(std::move(name), commands, folder) {}

  bool kill_one(int rank) {
    const auto now = bench::Clock::now().time_since_epoch().count();
    kill(job.worker(rank), SIGKILL);
    if (!job.wait_for_start(2)) return false;
    restart_ms.push_back(static_cast<double>(job.started_ns() - now) / 1e6);
    if (job.terminated_ns() != 0)
      reaction_ms.push_back(static_cast<double>(job.terminated_ns() - now) / 1e6);
    return true;
  }

  bench::Job job;
  std::vector<double> restart_ms;
  std::vector<double> reaction_ms;
};

void print(const Measured& measured) {
  const auto row = [](const char* what, const std::vector<double>& ms) {
    std::printf("  %-34s median %7.2f   p99 %7.2f   max %7.2f ms   (%zu)\n", what,
                bench::median(ms), bench::quantile(ms, 0.99), bench::quantile(ms, 1.0), ms.size());
  };
  std::printf("%s\n", measured.job.name().c_str());
  row("kill to both new workers running", measured.restart_ms);
  row("kill to SIGTERM at the other one", measured.reaction_ms);
}

/// `launcher` with the worker, on one node with two or on two with one each, which meet at `port`.
std::vector<Command> commands(Command launcher, int nodes, int port, const std::string& worker) {
  launcher.push_back("--nproc-per-node=" + std::to_string(2 / nodes));
  if (nodes > 1) {
    launcher.insert(launcher.end(), {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=bench",
                                     "--rdzv-endpoint=127.0.0.1:" + std::to_string(port)});
  }
  launcher.push_back(worker);
  return {static_cast<std::size_t>(nodes), launcher};
}

}  // namespace

int main(int argc, char** argv) {
  const int kills = argc > 1 ? std::atoi(argv[1]) : 50;
  if (kills < 1) {
    std::fprintf(stderr, "usage: bench_restart [KILLS=50]\n");
    return 2;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  char folder[] = "/tmp/bench_restart_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string worker = bench::own_folder() + "/bench_restart_worker";
  const std::string restarts = std::to_string(kills + 1);
  const Command ours{bench::own_folder() + "/ddprun", "--max-restarts=" + restarts,
                     "--restart-delay=0"};
  const int rdzvd_port = bench::free_port();
  const pid_t rdzvd = bench::start({bench::own_folder() + "/rdzvd", "--host=127.0.0.1",
                                    "--port=" + std::to_string(rdzvd_port),
                                    std::string("--state-dir=") + folder + "/state"});
  std::vector<std::unique_ptr<Measured>> all;
  const auto add = [&](const std::string& name, const Command& launcher, int nodes, int port) {
    all.push_back(
        std::make_unique<Measured>(name, commands(launcher, nodes, port, worker), folder));
  };
  add("ddprun", ours, 1, 0);
  add("ddprun, two nodes", ours, 2, bench::free_port());
  add("ddprun, two nodes, rdzvd with a journal", ours, 2, rdzvd_port);
  const std::string torchrun = bench::find_working("torchrun", {"--no-python", "/bin/true"});
  if (!torchrun.empty()) {
    const Command theirs{torchrun, "--no-python", "--max-restarts=" + restarts};
    add("torchrun", theirs, 1, 0);
    add("torchrun, two nodes", theirs, 2, bench::free_port());
  }
  bool ok = true;
  for (auto& one : all) ok = ok && one->job.wait_for_start(2);
  for (int i = 0; i < kills && ok; ++i) {
    for (auto& one : all) ok = ok && one->kill_one(i & 1);
  }
  for (auto& one : all) print(*one);
  for (std::size_t i = 3; i < all.size(); ++i) {
    const Measured& theirs = *all[i];
    const Measured& same = *all[i - 3];
    std::printf("%s / %s, medians: restart %.1fx, reaction %.1fx\n", theirs.job.name().c_str(),
                same.job.name().c_str(),
                bench::median(theirs.restart_ms) / bench::median(same.restart_ms),
                bench::median(theirs.reaction_ms) / bench::median(same.reaction_ms));
  }
  all.clear();
  kill(rdzvd, SIGTERM);
  waitpid(rdzvd, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!ok) std::fprintf(stderr, "bench_restart: a job did not come back within 60 s\n");
  return ok ? 0 : 1;
}
