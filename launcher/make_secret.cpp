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

}  // namespace

Outcome<std::string> make_secret_file(const std::string& path) {
  if (path.empty()) {
    return usage_error(
        "--make-secret: HOME is not set; choose a file with --make-secret --rdzv-secret-file=FILE");
  }
  std::error_code failed;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, failed);
  // libc++ tells of a file in a folder's place that it exists.
  if (failed == std::errc::file_exists) failed = std::make_error_code(std::errc::not_a_directory);
  const int error = failed ? failed.value() : write_new_file(path, random_digits());
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
      "Then only nodes that have it can join your jobs.\n",
      printable(path));
}

}  // namespace ddprun::launcher
