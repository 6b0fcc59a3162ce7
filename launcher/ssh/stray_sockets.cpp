#include "launcher/ssh/stray_sockets.hpp"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/unique_handle.hpp"
#include "launcher/ssh/ssh_command.hpp"

namespace ddprun::launcher {
namespace {

bool is_old_and_ours(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_uid == geteuid() && status.st_mtime + kStrayAge.count() <= std::time(nullptr);
}

/// Without waiting: a listener with many others waiting is one, too.
bool nobody_listens(const std::string& path) {
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.size() >= sizeof addr.sun_path) return false;
  std::memcpy(addr.sun_path, path.c_str(), path.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

void remove_stray_sockets(const std::string& folder) {
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    if (!std::string_view(entry->d_name).starts_with(kSocketPrefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (is_old_and_ours(path) && nobody_listens(path)) unlink(path.c_str());
  }
  closedir(directory);
}

}  // namespace ddprun::launcher
