// From SIGKILL of one of three agents to new workers on the two nodes that are left (--nnodes=2:3):
// ddprun, and torchrun where it is installed.
#include <filesystem>
#include <fstream>

#include "bench/restart/job.hpp"

namespace bench = ddprun::bench;
using bench::Command;

namespace {

constexpr int kNodes = 3;
constexpr std::chrono::minutes kGiveUp{3};

struct Launcher {
  std::string name;
  Command command;
  bool has_warden = false;  ///< the process that is started is not the agent, but its parent
  int losses = 0;
  std::vector<double> ms;
};

/// The first child of a process; -1: it has none.
pid_t child_of(pid_t parent) {
  const std::string task = "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent);
  pid_t child = -1;
  std::ifstream(task + "/children") >> child;
  return child;
}

bool lose_one(Launcher& launcher, const std::string& folder, const std::string& worker) {
  const std::string endpoint = "--rdzv-endpoint=127.0.0.1:" + std::to_string(bench::free_port());
  std::vector<Command> commands(kNodes, launcher.command);
  for (int node = 0; node < kNodes; ++node) {
    // The one that is killed does not have the rendezvous.
    const std::string role = node == kNodes - 1 ? ",is_host=0" : "";
    commands[static_cast<std::size_t>(node)].insert(
        commands[static_cast<std::size_t>(node)].end(),
        {"--nnodes=2:3", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=bench",
         "--rdzv-conf=last_call_timeout=1" + role, endpoint, worker});
  }
  bench::Job job("job", commands, folder);
  if (!job.wait_for_start(kNodes)) return false;
  const pid_t agent =
      launcher.has_warden ? child_of(job.launcher(kNodes - 1)) : job.launcher(kNodes - 1);
  std::vector<pid_t> workers;
  for (int rank = 0; rank < kNodes; ++rank) workers.push_back(job.worker(rank));
  const auto now = bench::Clock::now().time_since_epoch().count();
  kill(agent, SIGKILL);
  const bool ok = job.wait_for_start(kNodes - 1, kGiveUp);
  launcher.ms.push_back(static_cast<double>(job.started_ns() - now) / 1e6);
  for (const pid_t pid : workers) kill(pid, SIGKILL);  // those that an agent has left behind
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const int losses = argc > 1 ? std::atoi(argv[1]) : 20;
  if (losses < 1) {
    std::fprintf(stderr, "usage: bench_node_loss [LOSSES=20]     torchrun: a tenth of it\n");
    return 2;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  char folder[] = "/tmp/bench_node_loss_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string worker = bench::own_folder() + "/bench_restart_worker";
  std::vector<Launcher> launchers{{"ddprun", {bench::own_folder() + "/ddprun"}, true, losses, {}}};
  const std::string torchrun = bench::find_working("torchrun", {"--no-python", "/bin/true"});
  if (!torchrun.empty())
    launchers.push_back({"torchrun",
                         {torchrun, "--no-python", "--max-restarts=3"},
                         false,
                         std::max(losses / 10, 1),
                         {}});
  bool ok = true;
  for (Launcher& launcher : launchers) {
    for (int i = 0; i < launcher.losses && ok; ++i) ok = lose_one(launcher, folder, worker);
    std::printf(
        "%-9s agent killed to new workers on the others: median %9.2f   max %9.2f ms   (%zu)\n",
        launcher.name.c_str(), bench::median(launcher.ms), bench::quantile(launcher.ms, 1.0),
        launcher.ms.size());
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!ok) std::fprintf(stderr, "bench_node_loss: a job did not come back in time\n");
  return ok ? 0 : 1;
}
