#include "launcher/log_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/latest_link.hpp"
#include "base/time_stamp.hpp"
#include "proto/run_id.hpp"

namespace ddprun::launcher {
namespace {

bool is_missing(const std::string& base) {
  std::error_code failed;
  return std::filesystem::status(base, failed).type() == std::filesystem::file_type::not_found;
}

/// Why no folder was made in `base`. In /proc it says that the name is missing, though the folder
/// is there.
std::string why_not_made(const std::string& base, int error) {
  if (error == ENOENT && !is_missing(base)) return "its file system does not allow it";
  return std::strerror(error);
}

LaunchError cannot(const std::string& folder, const std::string& why) {
  return usage_error("--log-dir: cannot make a folder in " + folder + ": " + why +
                     "; give --log-dir a folder that you can write to");
}

/// Where no --log-dir was given.
LaunchError cannot_in_temporary(const std::string& base, int error) {
  const char* temporary = std::getenv("TMPDIR");
  const bool from_variable = temporary != nullptr && *temporary != '\0';
  std::string message = from_variable ? "TMPDIR=" + std::string(temporary) : base;
  message += is_missing(base) ? " does not exist"
                              : ": no folder can be made in it: " + why_not_made(base, error);
  message += ", and logs were asked for without --log-dir; ";
  message += from_variable ? "unset TMPDIR, or give" : "give";
  return usage_error(message + " --log-dir a folder that you can write to");
}

/// The run's name: date and time, then the id, which a fresh one begins with itself. Torchrun's own
/// name for a job without an id says nothing.
std::string run_name(const std::string& run_id) {
  if (begins_with_time_stamp(run_id)) return file_name_of(run_id);
  const std::string time = time_stamp(std::chrono::system_clock::now());
  return run_id == proto::kDefaultRunId ? time : time + "_" + file_name_of(run_id);
}

/// A new folder, for this user only. Nodes of a job that share a disk have names with a random part
/// each, but for the first one. Empty: errno says why.
std::string make_new_folder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0) return path;
  std::string other = path + "_XXXXXX";
  return errno == EEXIST && ::mkdtemp(other.data()) != nullptr ? other : std::string();
}

}  // namespace

std::string temporary_base(const std::string& otherwise) {
  const char* temporary = std::getenv("TMPDIR");
  if (temporary == nullptr || *temporary == '\0') return otherwise;
  if (*temporary == '/') return temporary;
  std::error_code failed;
  const auto base = std::filesystem::absolute(temporary, failed);
  return failed ? otherwise : base.lexically_normal().string();
}

LaunchResult<std::string> make_log_folder(const LaunchPlan& plan) {
  if (!plan.log_folder.wanted) return std::string();
  const std::string name = run_name(plan.agent.run_id);
  if (plan.log_folder.base.empty()) {
    const std::string base = temporary_base("/tmp");
    std::string path = make_new_folder(base + "/ddprun_" + name);
    if (path.empty()) return cannot_in_temporary(base, errno);
    return path;
  }
  std::error_code failed;
  const auto base = std::filesystem::absolute(plan.log_folder.base, failed);
  if (!failed) std::filesystem::create_directories(base, failed);
  if (failed) return cannot(plan.log_folder.base, failed.message());
  std::string path = make_new_folder(base / name);
  if (path.empty()) return cannot(plan.log_folder.base, why_not_made(base, errno));
  lead_latest_to(base, path);
  return path;
}

}  // namespace ddprun::launcher
