#include "launcher/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "agent/bounded_write.hpp"
#include "proto/unique_handle.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kReportLimit{2};

/// Opened anew it would be cut, and our offsets in it would differ.
int standard_descriptor(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat ours {};
    if (fstat(fd, &ours) == 0 && ours.st_dev == file.st_dev && ours.st_ino == file.st_ino)
      return fd;
  }
  return 0;
}

/// A FIFO that nobody reads does not keep us.
UniqueFd open_emptied(const std::string& path) {
  return UniqueFd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
}

}  // namespace

ReportFileResult empty_report_file(const std::string& path) {
  ReportFileResult result;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    result.standard = standard_descriptor(status);
    if (result.standard != 0) return result;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return result;
  }
  if (!open_emptied(path)) result.error = errno;
  return result;
}

ReportFileResult write_report_file(const std::string& path, std::string_view json) {
  ReportFileResult result;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) result.standard = standard_descriptor(status);
  UniqueFd file;
  if (result.standard == 0) {
    file = open_emptied(path);
    if (!file) {
      result.error = errno;
      return result;
    }
  }
  errno = ETIMEDOUT;
  const int fd = result.standard != 0 ? result.standard : file.get();
  if (!agent::write_within(fd, json, kReportLimit)) result.error = errno;
  return result;
}

}  // namespace ddprun::launcher
