#include "machine/processes/pid_namespace.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::machine {
namespace {

bool write_text(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::string same_number(unsigned id) {
  return std::to_string(id) + " " + std::to_string(id) + " 1";
}

}  // namespace

Result<void> open_pid_namespace() {
  if (unshare(CLONE_NEWPID) == 0) return {};
  if (errno != EPERM) return last_system_error();
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return last_system_error();
  // Without a privilege only our own numbers may be mapped, and the group's only after giving up
  // setgroups (user_namespaces(7)).
  if (!write_text("/proc/self/setgroups", "deny") ||
      !write_text("/proc/self/uid_map", same_number(user)) ||
      !write_text("/proc/self/gid_map", same_number(group)))
    return last_system_error();
  return {};
}

Result<void> mount_own_proc() {
  if (unshare(CLONE_NEWNS) != 0) return last_system_error();
  // What is mounted outside later still appears here (automounted homes, data sets); nothing of
  // ours appears there.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return last_system_error();
  return {};
}

}  // namespace ddprun::machine
