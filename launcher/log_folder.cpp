#include "launcher/log_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file_name.hpp"

namespace ddprun::launcher {
namespace {

bool is_missing(const std::string& base) {
  std::error_code failed;
  return std::filesystem::status(base, failed).type() == std::filesystem::file_type::not_found;
}

/// Why mkdtemp failed in `base`. In /proc it says that the name is missing, though the folder is
/// there.
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

/// Replaces the link at once; a name that is no link is left alone.
void lead_latest_to(const std::filesystem::path& base, const std::filesystem::path& folder) {
  std::error_code failed;
  const auto link = base / "latest";
  const auto status = std::filesystem::symlink_status(link, failed);
  if (status.type() != std::filesystem::file_type::symlink &&
      status.type() != std::filesystem::file_type::not_found)
    return;
  const auto fresh = base / (".latest_" + std::to_string(::getpid()));
  std::filesystem::create_symlink(folder.filename(), fresh, failed);
  if (!failed) std::filesystem::rename(fresh, link, failed);
  if (failed) std::filesystem::remove(fresh, failed);
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

Outcome<std::string> make_log_folder(const LaunchPlan& plan) {
  if (!plan.log_folder.wanted) return std::string();
  const std::string name = file_name_of(plan.agent.run_id) + "_XXXXXX";
  if (plan.log_folder.base.empty()) {
    const std::string base = temporary_base("/tmp");
    std::string path = base + "/ddprun_" + name;
    if (::mkdtemp(path.data()) == nullptr) return cannot_in_temporary(base, errno);
    return path;
  }
  std::error_code failed;
  const auto base = std::filesystem::absolute(plan.log_folder.base, failed);
  if (!failed) std::filesystem::create_directories(base, failed);
  if (failed) return cannot(plan.log_folder.base, failed.message());
  std::string path = base / name;
  if (::mkdtemp(path.data()) == nullptr)
    return cannot(plan.log_folder.base, why_not_made(base, errno));
  lead_latest_to(base, path);
  return path;
}

}  // namespace ddprun::launcher
