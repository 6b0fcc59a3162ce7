// Which processes are below one of ours, and the end of all of them with a kill that fails.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>

#include "machine/cgroups/job_cgroup.hpp"
#include "machine/processes/kill_children.hpp"
#include "machine/processes/process_tree.hpp"
#include "tests/support/skip.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::machine::ProcessEntry;

namespace {

std::vector<pid_t> pids(const std::vector<machine::ProcessEntry>& entries) {
  std::vector<pid_t> list;
  for (const machine::ProcessEntry& entry : entries) list.push_back(entry.pid);
  return list;
}

/// From here on the calling process has no clone3, as in many containers.
bool refuse_clone3() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

machine::ProcessEntry entry(pid_t pid, pid_t parent) { return {pid, parent, 'S', "name", pid}; }

}  // namespace

TEST_CASE("descendants come parents first and circles end") {
  const std::vector<machine::ProcessEntry> all = {entry(1, 0),   entry(30, 20), entry(20, 10),
                                                  entry(10, 1),  entry(11, 1),  entry(40, 41),
                                                  entry(41, 40), entry(50, 50)};
  CHECK(pids(machine::descendants_of(all, 10)) == std::vector<pid_t>{20, 30});
  CHECK(pids(machine::descendants_of(all, 1)) == std::vector<pid_t>{10, 11, 20, 30});
  CHECK(pids(machine::descendants_of(all, 40)) == std::vector<pid_t>{41});
  CHECK(machine::descendants_of(all, 50).empty());
  CHECK(machine::descendants_of({}, 1).empty());
}

TEST_CASE("our own children are found and named") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto all = machine::live_children();
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [child](const machine::ProcessEntry& entry) { return entry.pid == child; });
  REQUIRE(found != all.end());
  CHECK(found->parent == getpid());
  CHECK(machine::name_of(*found).starts_with("pid " + std::to_string(child) + " ("));
  CHECK(machine::describe_stuck(*found).find("), state ") != std::string::npos);
  CHECK(machine::signal_process(*found, SIGKILL));
  CHECK(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a process that is not the one we meant is not signalled") {
  // Our parent is not below us, and its parent is another than this entry names.
  machine::ProcessEntry stranger{getppid(), 1'000'000, 'S', "nobody", getppid()};
  CHECK_FALSE(machine::signal_process(stranger, 0));
  CHECK_FALSE(machine::signal_process({1'999'999'999, 5, 'S', "none", 1'999'999'999}, 0));
}

TEST_CASE("what cannot be killed is named when the deadline has passed") {
  sigset_t chld;
  sigset_t before;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &chld, &before);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto now = std::chrono::steady_clock::now();
  // A kill that does nothing, as for a process that became another user.
  const auto left = machine::kill_all_children(now + 30ms, [](pid_t, int) { return -1; });
  REQUIRE(left.size() == 1);
  CHECK(left.front().pid == child);
  CHECK(machine::has_children());
  CHECK(machine::kill_all_children(std::chrono::steady_clock::now() + 10s).empty());
  CHECK_FALSE(machine::has_children());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("a suspended child is told from one that sleeps") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    while (true) pause();
  }
  CHECK_FALSE(machine::condition_of(child).suspended);
  kill(child, SIGSTOP);
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED) == 0);
  CHECK(machine::condition_of(child).suspended);
  CHECK_FALSE(machine::condition_of(child).dying);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("a process that has begun to end shows it") {
  CHECK_FALSE(machine::condition_of(getpid()).dying);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(0);
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(machine::condition_of(child).dying);
  waitpid(child, nullptr, 0);
  CHECK_FALSE(machine::condition_of(child).dying);
}

TEST_CASE("no cgroup is possible where processes cannot be born into one") {
  if (!machine::JobCgroup::possible()) test::skip("we may make no cgroup here");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(!refuse_clone3() ? 77 : machine::JobCgroup::possible() ? 1 : 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) test::skip("no seccomp here");
  CHECK(WEXITSTATUS(status) == 0);
}
