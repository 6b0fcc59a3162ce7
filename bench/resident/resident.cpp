// What ddprun costs while a job runs, at every level of containment: context switches of an idle
// job, memory before and after many restarts, and what a restart takes. The jobs live at once and
// are restarted in turns. The worker is bench_restart's.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/restart/event.hpp"
#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;
using bench::WorkerEvent;

namespace {

/// The number behind `key` in a file of /proc; 0 when there is none.
long proc_number(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::atol(line.c_str() + key.size());
  }
  return 0;
}

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return numbers;
  while (const dirent* entry = readdir(directory)) {
    if (const int number = std::atoi(entry->d_name); number > 0) numbers.push_back(number);
  }
  closedir(directory);
  return numbers;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t pid : numbers_in("/proc")) {
    if (proc_number("/proc/" + std::to_string(pid) + "/status", "PPid:") == parent)
      children.push_back(pid);
  }
  return children;
}

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// One job of two workers, and the FIFO into which they write.
class Job {
 public:
  Job(std::string level, int restarts, const std::string& folder)
      : level_(std::move(level)), fifo_(folder + "/" + level_) {
    if (mkfifo(fifo_.c_str(), 0600) != 0) std::abort();
    input_ = open(fifo_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    setenv("BENCH_RESTART_FIFO", fifo_.c_str(), 1);
    std::string words[] = {bench::own_folder() + "/ddprun",
                           "--contain=" + level_,
                           "--nproc-per-node=2",
                           "--max-restarts=" + std::to_string(restarts),
                           "--restart-delay=0",
                           bench::own_folder() + "/bench_restart_worker"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&warden_, argv[0], &actions, nullptr, argv.data(), environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Job() {
    kill(warden_, SIGTERM);
    waitpid(warden_, nullptr, 0);
    close(input_);
    unlink(fifo_.c_str());
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Until both workers of a round run; false after 10 s.
  bool wait_for_start() {
    std::int64_t started[2] = {0, 0};
    while (started[0] == 0 || started[1] == 0) {
      pollfd entry{input_, POLLIN, 0};
      if (poll(&entry, 1, 10'000) <= 0) return false;
      WorkerEvent event;
      while (read(input_, &event, sizeof event) == sizeof event) {
        if (event.kind == 's') started[event.rank & 1] = event.monotonic_ns;
      }
    }
    both_started_ns_ = std::max(started[0], started[1]);
    if (ours_.empty()) find_processes();
    return true;
  }

  bool restart() {
    const std::vector<pid_t> workers = children_of(agent_);
    if (workers.empty()) return false;
    const auto now = bench::Clock::now().time_since_epoch().count();
    kill(workers[restart_ms.size() % workers.size()], SIGKILL);
    if (!wait_for_start()) return false;
    restart_ms.push_back(static_cast<double>(both_started_ns_ - now) / 1e6);
    return true;
  }

  /// Switches of all threads of all our processes, so far.
  [[nodiscard]] long context_switches() const {
    long sum = 0;
    for (const pid_t pid : ours_) {
      const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
      for (const pid_t thread : numbers_in(tasks)) {
        const std::string status = tasks + "/" + std::to_string(thread) + "/status";
        sum += proc_number(status, "voluntary_ctxt_switches:") +
               proc_number(status, "nonvoluntary_ctxt_switches:");
      }
    }
    return sum;
  }

  [[nodiscard]] long resident_kib() const {
    long sum = 0;
    for (const pid_t pid : ours_)
      sum += proc_number("/proc/" + std::to_string(pid) + "/status", "VmRSS:");
    return sum;
  }

  [[nodiscard]] const std::string& level() const { return level_; }
  [[nodiscard]] std::size_t processes() const { return ours_.size(); }
  std::vector<double> restart_ms;

 private:
  void find_processes() {
    ours_.push_back(warden_);
    for (const pid_t child : children_of(warden_)) {
      ours_.push_back(child);
      if (name_of(child) == "ddp-agent") agent_ = child;
    }
  }

  std::string level_;
  std::string fifo_;
  int input_ = -1;
  pid_t warden_ = -1;
  pid_t agent_ = -1;
  std::vector<pid_t> ours_;
  std::int64_t both_started_ns_ = 0;
};

int run(int restarts, int seconds, const std::string& folder) {
  constexpr int kWarmUp = 120;  // fill caches, and the report's 100 rounds
  std::vector<std::unique_ptr<Job>> jobs;
  for (const char* level : {"tree", "cgroup", "pidns"}) {
    jobs.push_back(std::make_unique<Job>(level, restarts + kWarmUp, folder));
    if (jobs.back()->wait_for_start()) continue;
    std::printf("--contain=%s cannot be had here\n", level);
    jobs.pop_back();
  }
  sleep(1);  // a job looks once at the machine's counters after its start
  std::vector<long> switches;
  for (const auto& job : jobs) switches.push_back(job->context_switches());
  sleep(static_cast<unsigned>(seconds));
  for (std::size_t i = 0; i < jobs.size(); ++i)
    switches[i] = jobs[i]->context_switches() - switches[i];
  std::vector<long> before(jobs.size());
  for (int i = 0; i < restarts + kWarmUp; ++i) {
    for (std::size_t k = 0; k < jobs.size(); ++k) {
      if (i == kWarmUp) before[k] = jobs[k]->resident_kib();
      if (!jobs[k]->restart()) {
        std::fprintf(stderr, "bench_resident: the job at level %s did not come back within 10 s\n",
                     jobs[k]->level().c_str());
        return 1;
      }
    }
  }
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    const Job& job = *jobs[k];
    std::printf(
        "%-7s %zu processes, %ld context switches in %d idle seconds; resident %ld KiB, "
        "after %d restarts %+ld KiB; restart median %.2f p99 %.2f max %.2f ms\n",
        job.level().c_str(), job.processes(), switches[k], seconds, before[k], restarts,
        job.resident_kib() - before[k], bench::median(job.restart_ms),
        bench::quantile(job.restart_ms, 0.99), bench::quantile(job.restart_ms, 1.0));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int restarts = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 10;
  if (restarts < 1 || seconds < 1) {
    std::fprintf(stderr, "usage: bench_resident [RESTARTS=1000] [IDLE_SECONDS=10]\n");
    return 2;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  char folder[] = "/tmp/bench_resident_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const int code = run(restarts, seconds, folder);
  rmdir(folder);
  return code;
}
