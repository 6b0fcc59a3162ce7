// Nobody survives: SIGKILL of the warden, the agent or a worker at random instants, with workers
// that double-fork, make sessions of their own and ignore SIGTERM.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

enum class Victim { warden, agent, worker };

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// Who shall die, among the processes of the job; -1: it is not there (yet).
pid_t find(Victim victim, pid_t warden, const std::string& entry) {
  if (victim == Victim::warden) return warden;
  pid_t agent = -1;
  for (const pid_t pid : test::processes_with(entry)) {
    if (pid != warden && test::parent_of(pid) == warden && name_of(pid) == "ddprun") agent = pid;
  }
  if (victim == Victim::agent || agent < 0) return agent;
  for (const pid_t pid : test::processes_with(entry)) {
    if (test::parent_of(pid) == agent && name_of(pid) == "job_worker") return pid;
  }
  return -1;
}

/// A job of two workers that leave detached processes behind and ignore SIGTERM.
struct Job {
  Job()
      : child({test::program("ddprun"), "--nproc-per-node=2", "--grace-period=0.01",
               test::helper("job_worker"), "ignore-term", "daemon", "daemon", "sleep", "60"},
              settings()) {}
  test::ChildOptions settings() {
    test::ChildOptions settings;
    settings.environment = {
        {"TEST_MARK", mark}, {"TMPDIR", directory.path().string()}, {"OMP_NUM_THREADS", "1"}};
    return settings;
  }
  test::TempDir directory;
  std::string mark = test::unique_mark();
  std::string entry = "TEST_MARK=" + mark;
  test::Child child;
};

/// How long a job takes here until both workers and their four detached processes run.
std::chrono::nanoseconds settling_time() {
  const auto begin = std::chrono::steady_clock::now();
  Job job;
  REQUIRE(test::eventually([&] { return test::processes_with(job.entry).size() == 8; }));
  const auto time = std::chrono::steady_clock::now() - begin;
  job.child.signal(SIGTERM);
  job.child.wait();
  return time;
}

// Kills at DDPRUN_INSTANTS random instants from the first system calls of ddprun to workers that
// have settled; gives how many kills met their victim.
int kill_at_random_instants(Victim victim, unsigned seed) {
  std::mt19937 random(seed);
  const auto longest = static_cast<unsigned>(settling_time() / 1us * 3 / 2);
  int killed = 0;
  std::chrono::nanoseconds slowest{0};
  for (int instant = 0; instant < DDPRUN_INSTANTS; ++instant) {
    CAPTURE(seed, instant);
    Job job;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    const pid_t pid = find(victim, job.child.pid(), job.entry);
    if (pid > 0 && kill(pid, SIGKILL) == 0) {
      ++killed;
    } else {
      job.child.signal(SIGKILL);  // too early for it: the warden, then
    }
    const auto begin = std::chrono::steady_clock::now();
    const bool gone = test::eventually([&] { return test::processes_with(job.entry).empty(); });
    slowest = std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - begin);
    CHECK(gone);
    for (const pid_t survivor : test::processes_with(job.entry)) kill(survivor, SIGKILL);
    job.child.wait();
  }
  std::cout << "killed " << killed << " of " << DDPRUN_INSTANTS
            << "; the last process was gone after at most "
            << std::chrono::duration_cast<std::chrono::milliseconds>(slowest).count() << " ms\n";
  return killed;
}

}  // namespace

TEST_CASE("nobody survives a killed warden") {
  CHECK(kill_at_random_instants(Victim::warden, 1) > 0);
}
TEST_CASE("nobody survives a killed agent") {
  CHECK(kill_at_random_instants(Victim::agent, 2) > 0);
}
TEST_CASE("nobody of the round survives a killed worker") {
  CHECK(kill_at_random_instants(Victim::worker, 3) > 0);
}
