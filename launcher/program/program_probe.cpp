// The real file system behind resolve_program.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/unique_handle.hpp"
#include "launcher/program/program.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kFirstBytesMax = 256;
constexpr std::size_t kNamesMax = 10'000;  // suggestions are not worth more

/// One read: of a regular file that is all there is, up to the limit.
std::string first_bytes(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK: the file may have become a FIFO since it was looked at.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return {};
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  std::string bytes(std::min(bytes_max, static_cast<std::size_t>(status.st_size)), '\0');
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

bool may_execute(const std::string& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return true;
  // That is faccessat2, and old container runtimes refuse system calls that they do not know.
  return (errno == EPERM || errno == ENOSYS) && ::access(path.c_str(), X_OK) == 0;
}

bool on_noexec(const std::string& path) {
  struct statvfs system {};
  return ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0;
}

std::string link_target(const std::string& path) {
  std::error_code failed;
  const auto target = std::filesystem::read_symlink(path, failed);
  return failed ? std::string() : target.string();
}

std::string special_kind(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

FileInfo RealFileProbe::look(const std::string& path) const {
  FileInfo info;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    info.link_target = link_target(path);
    return info;
  }
  if (S_ISDIR(status.st_mode)) {
    info.kind = FileInfo::Kind::folder;
  } else if (S_ISREG(status.st_mode)) {
    info.kind = FileInfo::Kind::regular;
    info.executable = may_execute(path);
    if (!info.executable) {
      info.first_bytes = first_bytes(path, kFirstBytesMax);
      info.noexec = on_noexec(path);
    }
  } else {
    info.kind = FileInfo::Kind::other;
    info.special = special_kind(status.st_mode);
  }
  return info;
}

std::string RealFileProbe::contents(const std::string& path, std::size_t bytes_max) const {
  return first_bytes(path, bytes_max);
}

bool RealFileProbe::same_folder(const std::string& one, const std::string& other) const {
  std::error_code failed;
  return std::filesystem::equivalent(one, other, failed);
}

bool RealFileProbe::in_deleted_folder() const {
  std::error_code failed;
  const auto folder = std::filesystem::current_path(failed);
  return folder.empty() && failed == std::errc::no_such_file_or_directory;
}

std::vector<std::string> RealFileProbe::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back(name);
    if (names.size() == kNamesMax) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ddprun::launcher
