#include "base/line_start.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_handle.hpp"

namespace ddprun {
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
