#include "launcher/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/file_lock.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kPrefix = "ddprun_";
constexpr std::string_view kRandom = "XXXXXX";
/// A folder may be taken for a dead one in the moment before it is locked.
constexpr int kAttempts = 20;

/// No other folder of ddprun's has such a name: those of logs have a second `_`.
bool is_run_folder(std::string_view name) {
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

/// Of this user, and still there.
bool is_ours(const UniqueFd& folder) {
  struct stat status {};
  return fstat(folder.get(), &status) == 0 && status.st_uid == geteuid() && status.st_nlink > 0;
}

UniqueFd open_folder(int base, const char* name) {
  return UniqueFd(openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

RunFolder make_run_folder(const std::string& base) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = base + "/" + std::string(kPrefix) + std::string(kRandom);
    if (mkdtemp(path.data()) == nullptr) return {};
    UniqueFd lock = open_folder(AT_FDCWD, path.c_str());
    if (!lock && errno != ENOENT) {
      rmdir(path.c_str());
      return {};
    }
    // A file system without locks is not looked through for dead folders.
    if (lock && try_lock(lock) != LockOutcome::busy && is_ours(lock))
      return {std::move(path), std::move(lock)};
  }
  return {};
}

void remove_dead_run_folders(const std::string& base) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(base.c_str()), closedir);
  if (!directory || !is_in_memory(dirfd(directory.get()))) return;
  while (const dirent* entry = readdir(directory.get())) {
    if (!is_run_folder(entry->d_name)) continue;
    const UniqueFd folder = open_folder(dirfd(directory.get()), entry->d_name);
    if (!folder || !is_ours(folder) || try_lock(folder) != LockOutcome::locked) continue;
    std::error_code ignored;
    std::filesystem::remove_all(base + "/" + entry->d_name, ignored);
  }
}

}  // namespace ddprun::launcher
