#include "base/file_lock.hpp"

#include <sys/file.h>

#include <cerrno>

namespace ddprun {

LockOutcome try_lock(const UniqueFd& fd, LockKind kind) {
  const int operation = (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  while (::flock(fd.get(), operation) != 0) {
    if (errno == EWOULDBLOCK) return LockOutcome::busy;
    if (errno != EINTR) return LockOutcome::failed;
  }
  return LockOutcome::locked;
}

}  // namespace ddprun
