// From SIGKILL of one of two workers to both new workers running, and to the reaction (SIGTERM at
// the other one): ddprun, and torchrun where it is installed. Both jobs live at once and are killed
// in turns.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
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

/// One job with two workers, and the FIFO into which they write.
class Job {
 public:
  Job(std::string name, std::vector<std::string> command, const std::string& folder)
      : name_(std::move(name)), fifo_(folder + "/" + name_) {
    if (mkfifo(fifo_.c_str(), 0600) != 0) std::abort();
    input_ = open(fifo_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    setenv("BENCH_RESTART_FIFO", fifo_.c_str(), 1);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Job() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
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
  std::string name_;
  std::string fifo_;
  int input_ = -1;
  pid_t pid_ = -1;
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
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(std::make_unique<Job>(
      "ddprun",
      std::vector<std::string>{bench::own_folder() + "/ddprun", "--nproc-per-node=2",
                               "--max-restarts=" + restarts, "--restart-delay=0", worker},
      folder));
  const std::string torchrun = bench::find_working("torchrun", {"--no-python", "/bin/true"});
  if (!torchrun.empty()) {
    jobs.push_back(std::make_unique<Job>(
        "torchrun",
        std::vector<std::string>{torchrun, "--no-python", "--nproc-per-node=2",
                                 "--max-restarts=" + restarts, worker},
        folder));
  }
  bool ok = true;
  for (auto& job : jobs) ok = ok && job->wait_for_start();
  for (int i = 0; i < kills && ok; ++i) {
    for (auto& job : jobs) ok = ok && job->kill_one(i & 1);
  }
  for (auto& job : jobs) print(*job);
  if (jobs.size() == 2) {
    std::printf("torchrun / ddprun, medians: restart %.1fx, reaction %.1fx\n",
                bench::median(jobs[1]->restart_ms) / bench::median(jobs[0]->restart_ms),
                bench::median(jobs[1]->reaction_ms) / bench::median(jobs[0]->reaction_ms));
  }
  jobs.clear();
  rmdir(folder);
  if (!ok) std::fprintf(stderr, "bench_restart: a job did not come back within 60 s\n");
  return ok ? 0 : 1;
}
