#include "base/bounded_write.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/byte_output.hpp"
#include "base/unique_handle.hpp"

namespace ddprun {

bool write_within(int fd, std::string_view bytes, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  if (bytes.empty()) return true;
  ConsoleOutput output(fd);
  bool waited = false;
  while (true) {
    const ByteOutput::Taken taken = output.take(bytes);
    if (taken.lost + taken.unwanted > 0) return false;
    bytes.remove_prefix(taken.written);
    if (bytes.empty()) return true;
    if (waited && taken.written == 0) {
      // A terminal counts room for a newline's two bytes only when it writes them.
      const timespec pause{0, 5'000'000};
      nanosleep(&pause, nullptr);
    }
    waited = output.wait_until(deadline);
    if (!waited || std::chrono::steady_clock::now() >= deadline) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

namespace {

/// The descriptor itself can mostly only be written to.
bool file_ends_within_line(int fd, off_t size) {
  const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  const off_t end = appends ? size : lseek(fd, 0, SEEK_CUR);
  if (end <= 0) return false;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char last = '\n';
  return reader && pread(reader.get(), &last, 1, end - 1) == 1 && last != '\n';
}

}  // namespace

std::string line_start(int fd, std::optional<bool> unfinished) {
  if (unfinished) return *unfinished ? "\n" : "";
  struct stat status {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    return file_ends_within_line(fd, status.st_size) ? "\n" : "";
  return isatty(fd) == 1 ? "\n" : "";
}

}  // namespace ddprun
