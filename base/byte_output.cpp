#include "base/byte_output.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace ddprun {

bool same_output(int a, int b) {
  // /dev/tty is another name of the terminal, with numbers of its own.
  unsigned terminal_a = 0;
  unsigned terminal_b = 0;
  if (ioctl(a, TIOCGDEV, &terminal_a) == 0 && ioctl(b, TIOCGDEV, &terminal_b) == 0)
    return terminal_a == terminal_b;
  struct stat x {};
  struct stat y {};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
         x.st_rdev == y.st_rdev;
}

void ConsoleOutput::look() {
  struct stat status {};
  if (fstat(fd_, &status) != 0 || S_ISREG(status.st_mode)) {
    kind_ = Kind::file;
  } else if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::socket;
  } else {
    // The flag of the inherited description is shared with the user's shell and never touched.
    constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    own_.reset(open(path.c_str(), kFlags));
    // After su and the like the terminal belongs to another user; the session's own may be opened.
    if (!own_ && S_ISCHR(status.st_mode) && tcgetsid(fd_) == getsid(0))
      own_.reset(open("/dev/tty", kFlags));
    kind_ = own_ ? Kind::own_description : Kind::waiting;
  }
}

bool ConsoleOutput::prompt() {
  if (kind_ == Kind::unknown) look();
  return kind_ == Kind::own_description || kind_ == Kind::socket;
}

ByteOutput::Taken ConsoleOutput::take(std::string_view bytes) {
  if (kind_ == Kind::unknown) look();
  ssize_t n = 0;
  switch (kind_) {
    case Kind::own_description:
      n = ::write(own_.get(), bytes.data(), bytes.size());
      break;
    case Kind::socket:
      n = send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case Kind::waiting: {
      // Another program's pipe. Where poll sees room, so many bytes never block.
      pollfd entry{fd_, POLLOUT, 0};
      if (poll(&entry, 1, 0) == 0) return {};
      n = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
      break;
    }
    case Kind::file:
    case Kind::unknown:
      n = ::write(fd_, bytes.data(), bytes.size());
      break;
  }
  if (n >= 0) return {.written = static_cast<std::size_t>(n)};
  if (errno == EAGAIN || errno == EINTR) return {};
  if (errno == EPIPE || errno == ECONNRESET || errno == EIO) return {.unwanted = bytes.size()};
  return {.lost = bytes.size(), .error = errno};
}

/// With a larger pipe its reader and we need not take turns for each 64 KiB.
void ConsoleOutput::enlarge() {
  if (enlarged_) return;
  enlarged_ = true;
  fcntl(own_.get(), F_SETPIPE_SZ, kBusyPipeBytes);  // of a terminal it is refused
}

void ConsoleOutput::wait() {
  if (kind_ == Kind::own_description) enlarge();
  wait_until(std::nullopt);
}

bool ConsoleOutput::wait_until(std::optional<std::chrono::steady_clock::time_point> deadline) {
  long left = -1;
  if (deadline) {
    left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now())
            .count();
    left = std::max(left, 0L);
  }
  pollfd entry{own_ ? own_.get() : fd_, POLLOUT, 0};
  return poll(&entry, 1, static_cast<int>(left)) != 0;
}

}  // namespace ddprun
