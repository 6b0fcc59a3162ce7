// From SIGKILL of one of two workers to both new workers running, and to the reaction (SIGTERM at
// the other one), with both on one node and with one on each of two: ddprun, and torchrun where it
// is installed. All jobs live at once and are killed in turns.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/restart/event.hpp"
#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;
using bench::WorkerEvent;

namespace {

using Command = std::vector<std::string>;

/// One job with two workers, and the FIFO into which they write.
class Job {
 public:
  /// `commands`: one for each node.
  Job(std::string name, std::vector<Command> commands, const std::string& folder)
      : name_(std::move(name)), fifo_(folder + "/" + name_) {
    if (mkfifo(fifo_.c_str(), 0600) != 0) std::abort();
    input_ = open(fifo_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    setenv("BENCH_RESTART_FIFO", fifo_.c_str(), 1);
    for (Command& command : commands) start(command);
  }
  ~Job() {
    for (const pid_t pid : launchers_) kill(pid, SIGINT);
    for (const pid_t pid : launchers_) waitpid(pid, nullptr, 0);
    close(input_);
    unlink(fifo_.c_str());
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Until both workers of a new round run; false after 60 s.
  bool wait_for_start() {
    started_[0] = started_[1] = WorkerEvent{};
    while (started_[0].pid == 0 || started_[1].pid == 0) {
      pollfd entry{input_, POLLIN, 0};
      if (poll(&entry, 1, 60'000) <= 0) return false;
      WorkerEvent event;
      while (read(input_, &event, sizeof event) == sizeof event) {
        if (event.kind == 's') started_[event.rank & 1] = event;
        if (event.kind == 't') terminated_ns_ = event.monotonic_ns;
      }
    }
    return true;
  }

  bool kill_one(int rank) {
    terminated_ns_ = 0;
    const auto now = bench::Clock::now().time_since_epoch().count();
    kill(started_[rank].pid, SIGKILL);
    if (!wait_for_start()) return false;
    const auto both = std::max(started_[0].monotonic_ns, started_[1].monotonic_ns);
    restart_ms.push_back(static_cast<double>(both - now) / 1e6);
    if (terminated_ns_ != 0) reaction_ms.push_back(static_cast<double>(terminated_ns_ - now) / 1e6);
    return true;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  std::vector<double> restart_ms;
  std::vector<double> reaction_ms;

 private:
  void start(Command& command) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    if (posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
    launchers_.push_back(pid);
  }

  std::string name_;
  std::string fifo_;
  int input_ = -1;
  std::vector<pid_t> launchers_;
  WorkerEvent started_[2];
  std::int64_t terminated_ns_ = 0;
};

void print(const Job& job) {
  const auto row = [](const char* what, const std::vector<double>& ms) {
    std::printf("  %-34s median %7.2f   p99 %7.2f   max %7.2f ms   (%zu)\n", what,
                bench::median(ms), bench::quantile(ms, 0.99), bench::quantile(ms, 1.0), ms.size());
  };
  std::printf("%s\n", job.name().c_str());
  row("kill to both new workers running", job.restart_ms);
  row("kill to SIGTERM at the other one", job.reaction_ms);
}

/// Free when it was asked for: the agents of a job must be told the same one beforehand.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof addr;
  auto* const any = reinterpret_cast<sockaddr*>(&addr);
  if (bind(fd, any, length) != 0 || getsockname(fd, any, &length) != 0) std::abort();
  close(fd);
  return ntohs(addr.sin_port);
}

/// `launcher` with the worker, on one node with two or on two with one each.
std::vector<Command> commands(Command launcher, int nodes, const std::string& worker) {
  launcher.push_back("--nproc-per-node=" + std::to_string(2 / nodes));
  if (nodes > 1) {
    launcher.insert(launcher.end(), {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=bench",
                                     "--rdzv-endpoint=127.0.0.1:" + std::to_string(free_port())});
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
  std::vector<std::unique_ptr<Job>> jobs;
  const auto add = [&](const std::string& name, const Command& launcher, int nodes) {
    jobs.push_back(std::make_unique<Job>(name, commands(launcher, nodes, worker), folder));
  };
  add("ddprun", ours, 1);
  add("ddprun, two nodes", ours, 2);
  const std::string torchrun = bench::find_working("torchrun", {"--no-python", "/bin/true"});
  if (!torchrun.empty()) {
    const Command theirs{torchrun, "--no-python", "--max-restarts=" + restarts};
    add("torchrun", theirs, 1);
    add("torchrun, two nodes", theirs, 2);
  }
  bool ok = true;
  for (auto& job : jobs) ok = ok && job->wait_for_start();
  for (int i = 0; i < kills && ok; ++i) {
    for (auto& job : jobs) ok = ok && job->kill_one(i & 1);
  }
  for (auto& job : jobs) print(*job);
  for (std::size_t i = 2; i < jobs.size(); ++i) {
    std::printf("%s / %s, medians: restart %.1fx, reaction %.1fx\n", jobs[i]->name().c_str(),
                jobs[i - 2]->name().c_str(),
                bench::median(jobs[i]->restart_ms) / bench::median(jobs[i - 2]->restart_ms),
                bench::median(jobs[i]->reaction_ms) / bench::median(jobs[i - 2]->reaction_ms));
  }
  jobs.clear();
  rmdir(folder);
  if (!ok) std::fprintf(stderr, "bench_restart: a job did not come back within 60 s\n");
  return ok ? 0 : 1;
}
