#include "machine/processes/shared_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <utility>

#include "base/unique_handle.hpp"

namespace ddprun::machine {
namespace {

struct Pattern {
  std::string_view before_pid;
  char behind_pid;
};
constexpr Pattern kPatterns[] = {{"torch_", '_'}, {"pym-", '-'}, {"sem.loky-", '-'}};

/// The kernel gives a lease for writing only where no other open file or mapping is there.
bool is_unused(const UniqueFd& file) {
  // Whoever opens it meanwhile sends us a signal, SIGIO unless we choose.
  return fcntl(file.get(), F_SETSIG, SIGCHLD) == 0 && fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0;
}

bool is_left_by_the_dead(const UniqueFd& file, std::chrono::system_clock::time_point since) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         status.st_ctim.tv_sec >= std::chrono::system_clock::to_time_t(since) && is_unused(file);
}

}  // namespace

std::optional<pid_t> maker_of_shared_memory(std::string_view name) {
  for (const Pattern& pattern : kPatterns) {
    if (!name.starts_with(pattern.before_pid)) continue;
    const char* const end = name.data() + name.size();
    pid_t pid = 0;
    const auto read = std::from_chars(name.data() + pattern.before_pid.size(), end, pid);
    if (read.ec == std::errc() && pid > 0 && read.ptr != end && *read.ptr == pattern.behind_pid)
      return pid;
  }
  return std::nullopt;
}

SharedMemoryRemoval::SharedMemoryRemoval(EndedProcesses ended, const std::string& folder)
    : ended_(std::move(ended)),
      directory_(ended_.pids.empty() ? nullptr : opendir(folder.c_str()), closedir) {}

bool SharedMemoryRemoval::remove_next() {
  if (!directory_) return false;
  const int at = dirfd(directory_.get());
  while (const dirent* entry = readdir(directory_.get())) {
    const auto maker = maker_of_shared_memory(entry->d_name);
    if (!maker || !ended_.pids.contains(*maker)) continue;
    if (kill(*maker, 0) == 0 || errno != ESRCH) continue;  // the number is another process's now
    const UniqueFd file(
        openat(at, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file || !is_left_by_the_dead(file, ended_.since)) continue;
    if (unlinkat(at, entry->d_name, 0) != 0) continue;
    ++removed_;
    return true;
  }
  directory_.reset();
  return false;
}

int remove_shared_memory_of(const EndedProcesses& ended, const std::string& folder) {
  SharedMemoryRemoval removal(ended, folder);
  while (removal.remove_next()) {
  }
  return removal.removed();
}

}  // namespace ddprun::machine
