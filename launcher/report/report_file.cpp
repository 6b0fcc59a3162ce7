#include "launcher/report/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/bounded_write.hpp"
#include "base/json_text.hpp"
#include "base/unique_handle.hpp"
#include "proto/environment_names.hpp"

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

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kWriteLimit{2};

/// As Python's subprocess: a signal is a negative code.
int python_exit_code(const ExitStatus& exit) { return exit.by_signal ? -exit.value : exit.value; }

}  // namespace

std::optional<std::string> error_file_copy(const agent::AgentResult& result,
                                           std::chrono::system_clock::time_point now) {
  const proto::Finished& finished = result.finished;
  if (finished.outcome == proto::Finished::Outcome::succeeded) return std::nullopt;
  if (!finished.verdict) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    const Json json = {
        {"message",
         {{"message", "ddprun: " + finished.reason},
          {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(seconds)}}}}}};
    return json_text(json, -1, /*ascii=*/true);
  }
  const proto::WorkerFailure& culprit = finished.verdict->culprit.failure;
  const auto found = result.error_files.find(culprit.local_rank);
  if (found == result.error_files.end()) return std::nullopt;
  Json json = Json::parse(found->second, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const int code = python_exit_code(culprit.exit);
  const auto message = json.find("message");
  if (code != 0 && message != json.end() && message->is_object()) (*message)["errorCode"] = code;
  return json_text(json, -1, /*ascii=*/true);
}

std::string write_error_file_copy(const std::string& path, const std::string& json) {
  const UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644));
  if (fd && write_within(fd.get(), json + "\n", kWriteLimit)) return "";
  return std::string(proto::env::kErrorFile) + "=" + path +
         ": the error could not be copied there: " + std::strerror(errno);
}

}  // namespace ddprun::launcher
