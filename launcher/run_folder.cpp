#include "launcher/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/file_lock.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kPrefix = "ddprun_";
constexpr std::string_view kRandom = "XXXXXX";
/// An empty file in each run folder. A user may well name a folder of data like a run folder.
constexpr const char* kMarker = ".ddprun-run";

bool has_name_of_run_folder(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandom.size()) return false;
  const std::string_view random = name.substr(kPrefix.size());
  return std::all_of(random.begin(), random.end(), [](char one) {
    return (one >= '0' && one <= '9') || (one >= 'A' && one <= 'Z') || (one >= 'a' && one <= 'z');
  });
}

bool is_in_memory(int folder) {
  struct statfs system {};
  return fstatfs(folder, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

bool belongs_to_user(const struct stat& status) { return status.st_uid == geteuid(); }

/// Whether make_run_folder made it, for this user.
bool is_run_folder(const UniqueFd& folder) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0 || !belongs_to_user(status)) return false;
  return fstatat(folder.get(), kMarker, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode) && belongs_to_user(status);
}

void mark(const UniqueFd& folder) {
  const UniqueFd marker(openat(folder.get(), kMarker,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               S_IRUSR | S_IWUSR));
}

UniqueFd open_folder(int base, const char* name) {
  return UniqueFd(openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// The marker goes last: by it the next start knows what a removal that was cut short has left.
void remove_marked(const std::string& path) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (entry->path().filename() == kMarker) continue;
    std::filesystem::remove_all(entry->path(), failed);
  }
  if (!failed) std::filesystem::remove_all(path, failed);
}

}  // namespace

RunFolder make_run_folder(const std::string& base) {
  std::string path = base + "/" + std::string(kPrefix) + std::string(kRandom);
  if (mkdtemp(path.data()) == nullptr) return {};
  UniqueFd lock = open_folder(AT_FDCWD, path.c_str());
  if (!lock) {
    rmdir(path.c_str());
    return {};
  }
  // The lock comes first: a folder with the marker and without a lock is that of a dead job.
  if (try_lock(lock) == LockOutcome::locked) mark(lock);
  return {std::move(path), std::move(lock)};
}

bool has_other_run_folders(const std::string& own) {
  const std::filesystem::path path(own);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.parent_path().c_str()),
                                                      closedir);
  if (!directory) return false;
  while (const dirent* entry = readdir(directory.get())) {
    if (has_name_of_run_folder(entry->d_name) && path.filename() != entry->d_name) return true;
  }
  return false;
}

void remove_dead_run_folders(const std::string& base) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(base.c_str()), closedir);
  if (!directory || !is_in_memory(dirfd(directory.get()))) return;
  while (const dirent* entry = readdir(directory.get())) {
    if (!has_name_of_run_folder(entry->d_name)) continue;
    const UniqueFd folder = open_folder(dirfd(directory.get()), entry->d_name);
    if (!folder || !is_run_folder(folder) || try_lock(folder) != LockOutcome::locked) continue;
    remove_marked(base + "/" + entry->d_name);
  }
}

}  // namespace ddprun::launcher
