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
#include <random>
#include <vector>

#include "machine/cgroups/job_cgroup.hpp"
#include "machine/processes/kill_children.hpp"
#include "machine/processes/process_tree.hpp"
#include "tests/support/skip.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::machine::ProcessEntry;

namespace {

constexpr auto kNoLimit = std::chrono::steady_clock::time_point::max();

/// As it is in the threads that end processes.
class BlockedChildSignal {
 public:
  BlockedChildSignal() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child, &before_);
  }
  ~BlockedChildSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedChildSignal(const BlockedChildSignal&) = delete;
  BlockedChildSignal& operator=(const BlockedChildSignal&) = delete;

 private:
  sigset_t before_;
};

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

machine::ProcessEntry entry(pid_t pid, pid_t parent) { return {pid, parent, 'S', "name", pid, 1}; }

/// The descendants, level by level, without a thought for time.
std::vector<pid_t> naive_descendants(const std::vector<ProcessEntry>& all, pid_t root) {
  std::vector<pid_t> found;
  std::vector<pid_t> known{root};
  for (std::size_t next = 0; next < known.size(); ++next) {
    for (const ProcessEntry& one : all) {
      if (one.parent != known[next]) continue;
      if (std::find(known.begin(), known.end(), one.pid) != known.end()) continue;
      found.push_back(one.pid);
      known.push_back(one.pid);
    }
  }
  return found;
}

/// Numbers that are used twice, circles, orphans, long chains and wide levels among them.
std::vector<ProcessEntry> random_processes(std::mt19937& random, std::size_t count) {
  std::vector<ProcessEntry> all;
  const auto pid_max = static_cast<pid_t>(count);
  const int kind = static_cast<int>(random() % 3);
  for (std::size_t i = 0; i < count; ++i) {
    const auto pid = static_cast<pid_t>(1 + random() % count);
    pid_t parent = static_cast<pid_t>(random() % count);
    if (kind == 1) parent = pid - 1;                               // chains
    if (kind == 2 && random() % 8 != 0) parent = pid_max / 2 + 1;  // one with very many children
    all.push_back(entry(pid, parent));
  }
  return all;
}

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

TEST_CASE("descendants among 10,000 random processes are those that a naive search finds") {
  std::mt19937 random(20);
  for (int kind = 0; kind < 6; ++kind) {
    const auto all = random_processes(random, 10'000);
    for (int i = 0; i < 2; ++i) {
      const auto root = static_cast<pid_t>(1 + random() % all.size());
      INFO("list " << kind << ", root " << root);
      REQUIRE(pids(machine::descendants_of(all, root)) == naive_descendants(all, root));
    }
  }
}

TEST_CASE("a walk in the smallest parts finds what one at once finds") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  machine::ProcessWalk walk;
  REQUIRE(walk.sees_processes());
  int parts = 1;
  for (; !walk.go_on({}); ++parts) {
  }
  CHECK(parts > 2);
  const auto found = pids(walk.take_descendants());
  CHECK(std::find(found.begin(), found.end(), child) != found.end());
  kill(child, SIGKILL);
  CHECK(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("our own children are found and named") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto all = machine::live_descendants();
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
  // No process was there at the start of the machine.
  machine::ProcessEntry stranger{getppid(), 1'000'000, 'S', "nobody", getppid(), 0};
  CHECK_FALSE(machine::signal_process(stranger, 0));
  CHECK_FALSE(machine::signal_process({1'999'999'999, 5, 'S', "none", 1'999'999'999, 1}, 0));
}

TEST_CASE("what cannot be killed is named when the deadline has passed") {
  const BlockedChildSignal blocked;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto now = std::chrono::steady_clock::now();
  // A kill that does nothing, as for a process that became another user.
  machine::ChildrenKiller deaf(now + 30ms, {}, [](const ProcessEntry&, int) { return false; });
  CHECK(deaf.go_on(kNoLimit));
  REQUIRE(deaf.left().size() == 1);
  CHECK(deaf.left().front().pid == child);
  CHECK(machine::has_children());
  CHECK(machine::kill_all_children(std::chrono::steady_clock::now() + 10s).empty());
  CHECK_FALSE(machine::has_children());
}

TEST_CASE("each process below us is sent SIGKILL once, in parts as well as at once") {
  const BlockedChildSignal blocked;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  constexpr int kChains = 8;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  for (int chain = 0; chain < kChains; ++chain) {
    if (fork() != 0) continue;
    for (int depth = 0; depth < 3 && fork() == 0; ++depth) setsid();
    if (write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  for (int i = 0; i < kChains * 4; ++i) {
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
  }
  int killed = 0;
  machine::ChildrenKiller killer(std::chrono::steady_clock::now() + 60s,
                                 [&killed](const ProcessEntry&) { ++killed; });
  int parts = 1;
  for (; !killer.go_on({}); ++parts) {
  }
  CHECK(killer.left().empty());
  CHECK(killed == kChains * 4);
  CHECK(parts > kChains * 4);
  CHECK_FALSE(machine::has_children());
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(ready[0]);
  close(ready[1]);
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
