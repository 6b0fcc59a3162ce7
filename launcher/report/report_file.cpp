#include "launcher/report/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/bounded_write.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kReportLimit{2};

bool goes_to(int fd, const struct stat& file) {
  struct stat ours {};
  return fstat(fd, &ours) == 0 && ours.st_dev == file.st_dev && ours.st_ino == file.st_ino;
}

/// An output of ours must not be opened anew: it would be cut, and our offsets in it would differ.
ReportFileResult look_at(const struct stat& file) {
  return {0, goes_to(STDOUT_FILENO, file), goes_to(STDERR_FILENO, file)};
}

/// A FIFO without a reader does not block us.
UniqueFd open_emptied(const std::string& path) {
  return UniqueFd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
}

/// 0, or an errno.
int write_to(int fd, const std::string& text) {
  errno = ETIMEDOUT;
  return write_within(fd, text, kReportLimit) ? 0 : errno;
}

}  // namespace

std::string why_not_written(int error) {
  return error == ENXIO ? "no process reads it" : std::strerror(error);
}

ReportFileResult empty_report_file(const std::string& path) {
  ReportFileResult result;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    result = look_at(status);
    if (result.to_stdout || result.to_stderr) return result;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
      // Opening it may be seen, or wait, at its other end.
      // What else may go wrong here is of the look alone: filters of containers refuse the call.
      const bool refused = faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0;
      if (refused && (errno == EACCES || errno == EROFS)) result.error = errno;
      if (S_ISSOCK(status.st_mode)) result.error = EOPNOTSUPP;
      return result;
    }
  }
  if (!open_emptied(path)) result.error = errno;
  return result;
}

ReportFileResult write_report_file(const std::string& path, const std::string& json,
                                   const UnfinishedLines& unfinished) {
  ReportFileResult result;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) result = look_at(status);
  if (result.to_stderr) {
    result.error = write_to(STDERR_FILENO, line_start(STDERR_FILENO, unfinished.on_stderr) + json);
  } else if (result.to_stdout) {
    result.error = write_to(STDOUT_FILENO, line_start(STDOUT_FILENO, unfinished.on_stdout) + json);
  } else {
    const UniqueFd file = open_emptied(path);
    result.error = file ? write_to(file.get(), json) : errno;
  }
  return result;
}

}  // namespace ddprun::launcher
