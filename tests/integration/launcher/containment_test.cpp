// No process survives: SIGKILL of the warden, the agent, both or a worker at random instants, at
// every level, with workers that double-fork, make sessions of their own, ignore SIGTERM or are
// stopped.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/child.hpp"
#include "tests/support/repeats.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

enum class Victim { warden, agent, both, worker };

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// The agent, or the first worker; -1: it is not there (yet). At level cgroup the first child of
/// the warden is the guard.
pid_t find(Victim victim, pid_t warden, const std::string& entry, const std::string& level) {
  if (victim == Victim::warden) return warden;
  std::vector<pid_t> children;
  for (const pid_t pid : test::processes_with(entry)) {
    if (pid != warden && test::parent_of(pid) == warden) children.push_back(pid);
  }
  std::sort(children.begin(), children.end());
  if (level == "cgroup" && !children.empty()) children.erase(children.begin());
  std::erase_if(children, [](pid_t pid) { return name_of(pid) != "ddp-agent"; });
  const pid_t agent = children.empty() ? -1 : children.back();
  if (victim != Victim::worker || agent < 0) return agent;
  for (const pid_t pid : test::processes_with(entry)) {
    if (test::parent_of(pid) == agent && name_of(pid) == "job_worker") return pid;
  }
  return -1;
}

/// A job of two workers that leave detached processes behind, ignore SIGTERM, and may be stopped.
struct KilledJob {
  KilledJob(const std::string& level, bool stopped) : child(command(level, stopped), settings()) {}
  static std::vector<std::string> command(const std::string& level, bool stopped) {
    std::vector<std::string> words{test::program("ddprun"),
                                   "--contain=" + level,
                                   "--nproc-per-node=2",
                                   "--grace-period=0.01",
                                   test::helper("job_worker"),
                                   "ignore-term",
                                   "daemon",
                                   "daemon"};
    const std::vector<std::string> end =
        stopped ? std::vector<std::string>{"kill", std::to_string(SIGSTOP)}
                : std::vector<std::string>{"sleep", "60"};
    words.insert(words.end(), end.begin(), end.end());
    return words;
  }
  test::ChildOptions settings() {
    test::ChildOptions settings;
    settings.environment = {{"TEST_MARK", mark},
                            {"TMPDIR", directory.path().string()},
                            {"OMP_NUM_THREADS", "1"},
                            test::no_leak_check()};
    return settings;
  }
  test::TempDir directory;
  std::string mark = test::unique_mark();
  std::string entry = "TEST_MARK=" + mark;
  test::Child child;
};

/// Ends the test where this level can't be had.
void need(const std::string& level) {
  test::ChildOptions settings;
  settings.environment = {test::no_leak_check()};
  const auto tried = test::run(
      {test::program("ddprun"), "--contain=" + level, "--no-python", "/bin/true"}, settings);
  if (tried.status != 0) test::skip("no --contain=" + level + " here: " + tried.err);
}

/// Waits until both workers and their four detached processes run.
void wait_until_settled(const KilledJob& job, const std::string& level) {
  const std::size_t all = level == "cgroup" ? 9 : 8;  // the guard
  REQUIRE(test::eventually([&] { return test::processes_with(job.entry).size() == all; }));
}

/// How long a job takes here until that.
std::chrono::nanoseconds settling_time(const std::string& level) {
  const auto begin = std::chrono::steady_clock::now();
  KilledJob job(level, false);
  wait_until_settled(job, level);
  const auto time = std::chrono::steady_clock::now() - begin;
  job.child.signal(SIGTERM);
  job.child.wait();
  return time;
}

// Kills at 8 (slow: 100) instants, random ones from the first system calls of ddprun to workers
// that have settled; gives how many kills met their victim. At the first instant they have settled
// in any case: on a busy machine all the random ones may come before there is a worker.
int kill_at_random_instants(const std::string& level, Victim victim, unsigned seed) {
  need(level);
  std::mt19937 random(seed);
  const auto longest = static_cast<unsigned>(settling_time(level) / 1us * 3 / 2);
  const int instants = test::repeats("DDPRUN_TEST_INSTANTS", 8);
  int killed = 0;
  std::chrono::nanoseconds slowest{0};
  for (int instant = 0; instant < instants; ++instant) {
    CAPTURE(level, seed, instant);
    KilledJob job(level, instant % 4 == 3);
    if (instant == 0)
      wait_until_settled(job, level);
    else
      std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    const pid_t pid = find(victim, job.child.pid(), job.entry, level);
    // Too early for it: the warden, then.
    if (victim == Victim::both || pid <= 0) job.child.signal(SIGKILL);
    if (pid > 0 && kill(pid, SIGKILL) == 0) ++killed;
    const auto begin = std::chrono::steady_clock::now();
    const bool gone = test::eventually([&] { return test::processes_with(job.entry).empty(); });
    slowest = std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - begin);
    CHECK(gone);
    for (const pid_t survivor : test::processes_with(job.entry)) kill(survivor, SIGKILL);
    job.child.wait();
  }
  std::cout << level << ": killed " << killed << " of " << instants
            << "; the last process was gone after at most "
            << std::chrono::duration_cast<std::chrono::milliseconds>(slowest).count() << " ms\n";
  return killed;
}

void kill_both_and_look_for_workers(const std::string& level) {
  need(level);
  test::TempDir directory;
  const std::string mark = test::unique_mark();
  test::ChildOptions settings;
  settings.environment = {
      {"TEST_MARK", mark}, {"TMPDIR", directory.path().string()}, test::no_leak_check()};
  test::Child child({test::program("ddprun"), "--contain=" + level, "--nproc-per-node=2",
                     test::helper("job_worker"), "print", "here", "sleep", "60"},
                    settings);
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  const pid_t agent = find(Victim::agent, child.pid(), "TEST_MARK=" + mark, level);
  REQUIRE(agent > 0);
  child.signal(SIGKILL);
  kill(agent, SIGKILL);
  CHECK(test::eventually([&] { return test::processes_with("TEST_MARK=" + mark).empty(); }));
  child.wait();
}

}  // namespace

TEST_CASE("no process survives a killed warden at level tree") {
  CHECK(kill_at_random_instants("tree", Victim::warden, 1) > 0);
}
TEST_CASE("no process survives a killed warden at level cgroup") {
  CHECK(kill_at_random_instants("cgroup", Victim::warden, 2) > 0);
}
TEST_CASE("no process survives a killed warden at level pidns") {
  CHECK(kill_at_random_instants("pidns", Victim::warden, 3) > 0);
}
TEST_CASE("no process survives a killed agent at level tree") {
  CHECK(kill_at_random_instants("tree", Victim::agent, 4) > 0);
}
TEST_CASE("no process survives a killed agent at level cgroup") {
  CHECK(kill_at_random_instants("cgroup", Victim::agent, 5) > 0);
}
TEST_CASE("no process survives a killed agent at level pidns") {
  CHECK(kill_at_random_instants("pidns", Victim::agent, 6) > 0);
}
TEST_CASE("no process of the round survives a killed worker at level tree") {
  CHECK(kill_at_random_instants("tree", Victim::worker, 7) > 0);
}
TEST_CASE("no process of the round survives a killed worker at level cgroup") {
  CHECK(kill_at_random_instants("cgroup", Victim::worker, 8) > 0);
}
TEST_CASE("no process of the round survives a killed worker at level pidns") {
  CHECK(kill_at_random_instants("pidns", Victim::worker, 9) > 0);
}
TEST_CASE("no process survives a warden and an agent killed at one instant at level cgroup") {
  CHECK(kill_at_random_instants("cgroup", Victim::both, 10) > 0);
}
TEST_CASE("no process survives a warden and an agent killed at one instant at level pidns") {
  CHECK(kill_at_random_instants("pidns", Victim::both, 11) > 0);
}
TEST_CASE("workers die with a warden and an agent killed at one instant at level tree") {
  kill_both_and_look_for_workers("tree");
}
TEST_CASE("workers die with a warden and an agent killed at one instant at level cgroup") {
  kill_both_and_look_for_workers("cgroup");
}
TEST_CASE("workers die with a warden and an agent killed at one instant at level pidns") {
  kill_both_and_look_for_workers("pidns");
}

TEST_CASE("a guard that is killed is replaced") {
  need("cgroup");
  test::TempDir directory;
  const std::string mark = test::unique_mark();
  test::ChildOptions settings;
  settings.environment = {
      {"TEST_MARK", mark}, {"TMPDIR", directory.path().string()}, test::no_leak_check()};
  test::Child child({test::program("ddprun"), "--contain=cgroup", "--nproc-per-node=2",
                     test::helper("job_worker"), "daemon", "print", "here", "sleep", "60"},
                    settings);
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  const auto guard = [&] {
    const auto all = test::processes_with("TEST_MARK=" + mark);
    const auto found =
        std::find_if(all.begin(), all.end(), [](pid_t pid) { return name_of(pid) == "ddp-guard"; });
    return found == all.end() ? -1 : *found;
  };
  REQUIRE(test::eventually([&] { return guard() > 0; }));
  const pid_t first = guard();
  kill(first, SIGKILL);
  // Asked once each time: between two questions the first one may vanish.
  REQUIRE(test::eventually([&] {
    const pid_t now = guard();
    return now > 0 && now != first;
  }));
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return err.find("another one took its place") != std::string::npos;
  }));
  const pid_t agent = find(Victim::agent, child.pid(), "TEST_MARK=" + mark, "");
  REQUIRE(agent > 0);
  child.signal(SIGKILL);
  kill(agent, SIGKILL);
  CHECK(test::eventually([&] { return test::processes_with("TEST_MARK=" + mark).empty(); }));
  child.wait();
}
