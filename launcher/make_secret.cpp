#include "launcher/make_secret.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/shell_word.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kRandomBytes = 32;

/// As a line.
std::string random_digits() {
  std::array<unsigned char, kRandomBytes> bytes{};
  // Up to 256 bytes come whole (getrandom(2)), unless a signal comes first.
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text + "\n";
}

/// errno; 0: it is done.
int write_new_file(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) return errno;
  // The mode whatever the umask; and on the disk before anybody copies it.
  errno = 0;
  const bool written =
      fchmod(fd.get(), S_IRUSR | S_IWUSR) == 0 &&
      write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(fd.get()) == 0;
  if (written) return 0;
  const int error = errno != 0 ? errno : ENOSPC;
  unlink(path.c_str());
  return error;
}

/// With mode 0700 whatever the umask. errno; 0: it is there.
int make_folders(const std::filesystem::path& folder) {
  std::error_code failed;
  if (folder.empty() || std::filesystem::exists(folder, failed)) return 0;
  if (folder.has_relative_path()) {
    if (const int error = make_folders(folder.parent_path()); error != 0) return error;
  }
  if (mkdir(folder.c_str(), S_IRWXU) != 0) return errno == EEXIST ? 0 : errno;
  return chmod(folder.c_str(), S_IRWXU) == 0 ? 0 : errno;
}

/// Whoever can change the folder can remove the secret, and with it the proofs. Empty: only this
/// user can, and root.
std::string warning_of_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  struct stat found {};
  if (stat(name.c_str(), &found) != 0 || (found.st_mode & S_ISVTX) != 0 ||
      (found.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return "";
  return fmt::format(
      "Other users can change its folder (mode {:04o}), so they can remove the secret: type "
      "chmod go-w {}\n",
      found.st_mode & 07777, shell_word(printable(name)));
}

}  // namespace

LaunchResult<std::string> make_secret_file(const std::string& path) {
  if (path.empty()) {
    return usage_error(
        "--make-secret: HOME is not set; choose a file with --make-secret --rdzv-secret-file=FILE");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  int error = make_folders(folder);
  if (error == 0) error = write_new_file(path, random_digits());
  if (error == EEXIST) {
    return usage_error("--make-secret: " + path +
                       " exists and stays as it is; remove it first, or give another file with "
                       "--rdzv-secret-file=FILE");
  }
  if (error != 0) {
    return usage_error(fmt::format(
        "--make-secret: cannot write {}: {}; give another file with --rdzv-secret-file=FILE", path,
        std::strerror(error)));
  }
  return fmt::format(
      "A new secret is in {0}.\n"
      "Copy the file to the same place on each node, with mode 600 (a shared home directory needs "
      "no copy).\n"
      "Then only nodes that have it can join your jobs.\n{1}",
      printable(path), warning_of_folder(folder));
}

}  // namespace ddprun::launcher
