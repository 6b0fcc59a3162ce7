#include "base/standard_descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {

bool ensure_standard_descriptors() {
  const bool has_stdout = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd > 2) close(fd);
    if (fd >= 0 && fd <= 2) fcntl(fd, F_SETFD, 0);
  } while (fd >= 0 && fd <= 2);
  return has_stdout;
}

}  // namespace ddprun
