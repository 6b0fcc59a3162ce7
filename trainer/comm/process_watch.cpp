#include "trainer/comm/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/process_stat.hpp"
#include "base/small_file.hpp"

namespace ddprun::trainer {
ProcessIdentity own_identity() {
  ProcessIdentity identity;
  identity.boot_id = read_small_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!identity.boot_id.empty() && identity.boot_id.back() == '\n') identity.boot_id.pop_back();
  std::array<char, 64> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  if (length > 0) identity.pid_namespace.assign(link.data(), static_cast<std::size_t>(length));
  identity.pid = ::getpid();
  if (const auto stat = read_process_stat(identity.pid)) identity.start_time = stat->start_time;
  return identity;
}

ProcessWatch::ProcessWatch(const ProcessIdentity& identity)
    : pid_(identity.pid), start_time_(identity.start_time) {
#ifdef SYS_pidfd_open
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
#endif
  // The descriptor names the process that has the number now: it is of use only if that is still
  // the one we mean.
  const auto stat = read_process_stat(pid_);
  gone_ = !stat || stat->start_time != start_time_;
}

bool ProcessWatch::alive() const {
  if (gone_) return false;
  if (pidfd_) {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) <= 0;  // an interrupted call says nothing
  }
  const auto stat = read_process_stat(pid_);
  return stat && stat->start_time == start_time_ && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace ddprun::trainer
