#include "machine/cgroups/job_cgroup.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/cgroup_places.hpp"
#include "base/open_file.hpp"
#include "base/small_file.hpp"

namespace ddprun::machine {

namespace {

using namespace std::chrono_literals;

constexpr long kCgroup2Magic = 0x63677270;  // CGROUP2_SUPER_MAGIC
constexpr auto kGuardLimit = 10s;           // then it gives up, too
constexpr auto kGuardLooksEvery = 2ms;
constexpr int kGuardEndsWithinMs = 200;

bool writable(const std::string& parent) {
  return !parent.empty() && access(parent.c_str(), W_OK) == 0 &&
         access((parent + "/cgroup.procs").c_str(), W_OK) == 0;
}

/// Filters of system calls (container runtimes') refuse clone3 as a whole: they can't look into its
/// arguments. Where it is there, it finds this call wrong.
bool births_possible() { return syscall(SYS_clone3, nullptr, 0) < 0 && errno == EINVAL; }

/// The cgroups that workers have made below theirs, the deepest first.
void remove_below(const std::string& folder) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!entry->is_directory(error)) continue;
    remove_below(entry->path().string());
    rmdir(entry->path().c_str());
  }
}

[[noreturn]] void guard_main(const JobCgroup& cgroup, int life) {
  constexpr int kLife = STDERR_FILENO + 1;
  setsid();  // a signal to the job's process group is not for it
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Above all not the end that keeps it asleep.
  dup2(life, kLife);
  syscall(SYS_close_range, kLife + 1U, ~0U, 0U);
  // Last: what has this name guards. No `ddprun` in it: a kill by name shall leave it.
  prctl(PR_SET_NAME, "ddp-guard");
  char nothing = 0;
  while (read(kLife, &nothing, 1) < 0 && errno == EINTR) {
  }
  const auto deadline = std::chrono::steady_clock::now() + kGuardLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    cgroup.kill();
    if (cgroup.remove()) break;
    std::this_thread::sleep_for(kGuardLooksEvery);
  }
  _exit(0);
}

}  // namespace

std::string JobCgroup::parent_folder() {
  for (const CgroupPlace& place : own_cgroups("")) {
    if (!place.unified) continue;
    std::string folder = place.mount_point + place.path;
    // The root of the hierarchy has no cgroup.kill of its own, though those below it do.
    struct stat status {};
    const bool kills = stat((folder + "/cgroup.kill").c_str(), &status) == 0 ||
                       stat((folder + "/cgroup.type").c_str(), &status) != 0;
    return kills ? folder : "";
  }
  return "";
}

bool JobCgroup::possible() { return writable(parent_folder()) && births_possible(); }

bool JobCgroup::delegated() {
  // Asked at every start: on most machines the first question answers it.
  struct statfs file_system {};
  if (statfs("/sys/fs/cgroup", &file_system) != 0 || file_system.f_type != kCgroup2Magic)
    return false;
  const std::string parent = parent_folder();
  struct stat status {};
  if (!writable(parent) || !births_possible() || stat(parent.c_str(), &status) != 0) return false;
  char mark = '0';
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    if (getxattr(parent.c_str(), name, &mark, 1) == 1 && mark == '1') return true;
  }
  return geteuid() != 0 && status.st_uid == geteuid();
}

JobCgroup::JobCgroup(const std::string& parent) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  folder_ = parent + "/ddprun-" + std::to_string(getpid()) + "-" + std::to_string(now);
}

Result<void> JobCgroup::make() {
  if (mkdir(folder_.c_str(), 0755) != 0) return last_system_error();
  folder_fd_.reset(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (folder_fd_ && fstatat(folder_fd(), "cgroup.kill", &status, 0) == 0) return {};
  const ErrorCode error = last_system_error();
  rmdir(folder_.c_str());
  return error;
}

void JobCgroup::kill() const {
  const UniqueFd file(open((folder_ + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return;
  [[maybe_unused]] const auto written = write(file.get(), "1", 1);
  // Misses a process that has lost its first thread (seen on 6.18), which a signal does not.
  const auto left = read_small_file(folder_ + "/cgroup.procs");
  if (!left) return;
  for (const char* text = left->c_str(); *text != '\0';) {
    char* end = nullptr;
    const long pid = std::strtol(text, &end, 10);
    if (end == text) return;
    if (pid > 0) ::kill(static_cast<pid_t>(pid), SIGKILL);
    text = *end == '\n' ? end + 1 : end;
  }
}

bool JobCgroup::remove() const {
  if (rmdir(folder_.c_str()) == 0 || errno == ENOENT) return true;
  if (errno != EBUSY && errno != ENOTEMPTY) return false;
  remove_below(folder_);
  return rmdir(folder_.c_str()) == 0 || errno == ENOENT;
}

Result<GuardedCgroup> GuardedCgroup::make() {
  GuardedCgroup made{JobCgroup(JobCgroup::parent_folder())};
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  made.life_end_ = std::move(pipe->read);
  made.life_ = std::move(pipe->write);
  if (!made.replace_guard()) return last_system_error();
  if (const auto done = made.cgroup_.make(); !done) {
    made.kill();
    return done.error();
  }
  return made;
}

bool GuardedCgroup::replace_guard() {
  guard_ = fork();
  if (guard_ == 0) guard_main(cgroup_, life_end_.get());
  return guard_ > 0;
}

void GuardedCgroup::kill() const {
  cgroup_.kill();
  if (guard_ <= 0) return;
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, guard_, 0)));
  ::kill(guard_, SIGKILL);
  pollfd ended{pidfd.get(), POLLIN, 0};
  poll(&ended, 1, kGuardEndsWithinMs);
  waitpid(guard_, nullptr, WNOHANG);
}

std::optional<std::uint64_t> memory_kill_count(const std::string& root) {
  for (const CgroupPlace& place : own_cgroups("", root)) {
    const auto text = read_small_file(root + place.mount_point + place.path + "/memory.events");
    if (const auto count = text ? counter_in(*text, "oom_kill") : std::nullopt) return count;
  }
  const auto text = read_small_file(root + "/proc/vmstat");
  return text ? counter_in(*text, "oom_kill") : std::nullopt;
}

}  // namespace ddprun::machine
