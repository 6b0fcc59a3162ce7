#include "machine/processes/spawn.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#if defined(__SANITIZE_THREAD__)
// Declared in sanitizer/linux_syscall_hooks.h, which not every compiler package has.
extern "C" void __sanitizer_syscall_pre_impl_fork();
extern "C" void __sanitizer_syscall_post_impl_fork(long pid);
#endif

namespace ddprun::machine {
namespace {

constexpr int kOomScoreAdjustment =
    100;  // workers are better victims of the kernel's memory killer than we are
constexpr std::size_t kChildStackBytes = 64 * 1024;

// All that the child needs, prepared by the parent: between clone and exec it may only make system
// calls.
struct ChildPlan {
  const char* file;
  char* const* argv;
  char* const* environment;
  int fds[3];
  pid_t parent;
  const UserState* user;
  char oom_score[8];
  std::size_t oom_score_length;
  const unsigned long* cpus;  // null: as the parent
  std::size_t cpus_bytes;
  // Where the child reports what failed: ours, because it shares our memory, or shared pages.
  struct Failure {
    int error;
    bool of_affinity;
  };
  Failure* failure;
};

// Tells sched_setaffinity's errno from execve's.
class AffinityCategory : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "cpu affinity"; }
  std::string message(int value) const override {
    const char* hint = value == EINVAL ? " (none of them is online and in its cpuset)" : "";
    return "its CPUs cannot be set: " + boost::system::system_category().message(value) + hint;
  }
};

// Descriptors must not collide with 0, 1, 2 while they are moved there.
__attribute__((no_sanitize("address", "undefined", "thread"))) bool place_descriptors(
    ChildPlan* plan) {
  int moved[3];
  for (int target = 0; target < 3; ++target) {
    moved[target] = plan->fds[target];
    if (moved[target] >= 0 && moved[target] < 3 && moved[target] != target) {
      moved[target] = fcntl(moved[target], F_DUPFD, 3);
      if (moved[target] < 0) return false;
    }
  }
  for (int target = 0; target < 3; ++target) {
    if (moved[target] == target) {
      if (fcntl(target, F_SETFD, 0) < 0) return false;
    } else if (dup2(moved[target], target) < 0) {
      return false;
    }
  }
  return true;
}

// Runs on its own stack while the parent thread sleeps. Only async-signal-safe calls.
__attribute__((no_sanitize("address", "undefined", "thread"))) int child_main(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above; its pid was recorded before the clone, because
  // 1 is a parent too.
  if (getppid() != plan->parent) syscall(SYS_exit, 127);
  for (const auto& [signal, action] : plan->user->dispositions) sigaction(signal, &action, nullptr);
  const int oom_score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (oom_score >= 0) {
    [[maybe_unused]] const auto written = write(oom_score, plan->oom_score, plan->oom_score_length);
    close(oom_score);
  }
  // The system call: the wrapper of the C library wants a mask of its own type.
  if (plan->cpus != nullptr &&
      syscall(SYS_sched_setaffinity, 0, plan->cpus_bytes, plan->cpus) != 0) {
    plan->failure->error = errno;
    plan->failure->of_affinity = true;
    syscall(SYS_exit, 127);
  }
  if (place_descriptors(plan)) {
    syscall(SYS_close_range, 3U, ~0U,
            0U);  // ENOSYS before 5.9: our own descriptors are CLOEXEC anyway
    sigprocmask(SIG_SETMASK, &plan->user->mask, nullptr);
    // Last: with a small limit of the user's nothing could be opened before.
    setrlimit(RLIMIT_NOFILE, &plan->user->open_files);
    execve(plan->file, plan->argv, plan->environment);
  }
  plan->failure->error = errno;
  syscall(SYS_exit, 127);
  return 127;
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Reads our own adjustment once: the child adds to it.
int own_oom_score_adjustment() {
  static const int value = [] {
    char text[16] = {};
    const UniqueFd fd(open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC));
    if (!fd || read(fd.get(), text, sizeof text - 1) <= 0) return 0;
    return std::atoi(text);
  }();
  return value;
}

class ChildStack {
 public:
  ChildStack()
      : base_(mmap(nullptr, kChildStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~ChildStack() {
    if (base_ != MAP_FAILED) munmap(base_, kChildStackBytes);
  }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;
  [[nodiscard]] bool ok() const { return base_ != MAP_FAILED; }
  [[nodiscard]] void* top() const { return static_cast<char*>(base_) + kChildStackBytes; }

 private:
  void* base_;
};

// ThreadSanitizer keeps its books in the memory of the process: a child that shares it spoils them.
// In a copy one of its locks may be held for ever, by a thread of ours that is not there. Told of a
// fork, it lets the calls of the child alone; of the child it is told nothing, because it would
// start a thread there.
#if defined(__SANITIZE_THREAD__)
constexpr bool kShareMemory = false;
void before_copy() { __sanitizer_syscall_pre_impl_fork(); }
void after_copy(long pid) { __sanitizer_syscall_post_impl_fork(pid); }
#else
constexpr bool kShareMemory = true;
void before_copy() {}
void after_copy(long /*pid*/) {}
#endif

// Starts the child with a copy of our memory, in a cgroup if there is one: clone3 with our memory
// shared would return twice on one stack. Only the page in which it reports what failed is shared.
pid_t clone_with_copy(ChildPlan* plan, int cgroup) {
  static void* const shared = mmap(nullptr, sizeof(ChildPlan::Failure), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return -1;
  plan->failure = static_cast<ChildPlan::Failure*>(shared);
  *plan->failure = {};
  clone_args arguments{};
  arguments.flags = CLONE_VFORK;
  arguments.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  before_copy();
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) child_main(plan);
  after_copy(pid);
  return static_cast<pid_t>(pid);
}

}  // namespace

UserState UserState::take() {
  UserState user;
  pthread_sigmask(SIG_SETMASK, nullptr, &user.mask);
  for (const int signal : kChangedSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    user.dispositions.emplace_back(signal, action);
  }
  getrlimit(RLIMIT_NOFILE, &user.open_files);
  return user;
}

Result<SpawnedProcess> spawn(const SpawnRequest& request, const UserState& user) {
  const std::vector<char*> argv = c_strings(request.argv);
  const std::vector<char*> environment = c_strings(request.environment);
  const std::vector<unsigned long> cpus = affinity_mask(request.cpus);
  static const ChildStack stack;  // one thread spawns, one child at a time stands on it
  if (!stack.ok()) return last_system_error();

  ChildPlan::Failure failure{};
  ChildPlan plan{};
  plan.failure = &failure;
  plan.file = request.file.c_str();
  plan.argv = argv.data();
  plan.environment = environment.data();
  plan.fds[0] = request.stdin_fd;
  plan.fds[1] = request.stdout_fd;
  plan.fds[2] = request.stderr_fd;
  plan.parent = getpid();
  plan.user = &user;
  plan.cpus = cpus.empty() ? nullptr : cpus.data();
  plan.cpus_bytes = cpus.size() * sizeof cpus[0];
  const int score = std::min(1000, own_oom_score_adjustment() + kOomScoreAdjustment);
  plan.oom_score_length = static_cast<std::size_t>(
      std::to_chars(plan.oom_score, plan.oom_score + sizeof plan.oom_score, score).ptr -
      plan.oom_score);

  // No handler of ours may run in the child: it would run in our memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = kShareMemory && request.cgroup < 0
                        ? clone(child_main, stack.top(), CLONE_VM | CLONE_VFORK | SIGCHLD, &plan)
                        : clone_with_copy(&plan, request.cgroup);
  const int clone_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrorCode(clone_error, boost::system::system_category());
  if (plan.failure->error != 0) {
    waitpid(pid, nullptr, 0);
    static const AffinityCategory affinity_category;
    if (plan.failure->of_affinity) return ErrorCode(plan.failure->error, affinity_category);
    return ErrorCode(plan.failure->error, boost::system::system_category());
  }
  SpawnedProcess process;
  process.pid = pid;
  // Not yet reaped, so the pid cannot be another process's.
  const long pidfd = syscall(SYS_pidfd_open, pid, 0);
  if (pidfd >= 0) process.pidfd.reset(static_cast<int>(pidfd));  // CLOEXEC by definition
  return process;
}

namespace {

std::optional<ReapedProcess> look_at_child(pid_t pid, int flags) {
  ReapedProcess reaped;
  siginfo_t info{};
  rusage usage{};
  // The system call, not the wrapper: it also gives the usage.
  if (syscall(SYS_waitid, P_PID, pid, &info, flags, &usage) != 0 || info.si_pid != pid) {
    return std::nullopt;
  }
  reaped.exit.by_signal = info.si_code != CLD_EXITED;
  reaped.exit.value = info.si_status;
  reaped.exit.core_dumped = info.si_code == CLD_DUMPED;
  const auto time = [](const timeval& used) {
    return std::chrono::seconds(used.tv_sec) + std::chrono::microseconds(used.tv_usec);
  };
  reaped.used = {static_cast<std::uint64_t>(usage.ru_maxrss) * 1024,
                 time(usage.ru_utime) + time(usage.ru_stime)};
  return reaped;
}

}  // namespace

std::optional<ReapedProcess> reap(pid_t pid) { return look_at_child(pid, WEXITED | WNOHANG); }

std::optional<ExitStatus> exit_of(pid_t pid) {
  const auto ended = look_at_child(pid, WEXITED | WNOHANG | WNOWAIT);
  return ended ? std::optional(ended->exit) : std::nullopt;
}

}  // namespace ddprun::machine
