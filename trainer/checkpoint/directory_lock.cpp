#include "trainer/checkpoint/directory_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/file_lock.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

std::string holder_text(const UniqueFd& fd) {
  struct stat status {};
  std::ifstream file("/proc/locks");
  const std::string locks{std::istreambuf_iterator<char>(file), {}};
  std::optional<pid_t> holder;
  if (::fstat(fd.get(), &status) == 0) holder = holder_of_lock(locks, status.st_dev, status.st_ino);
  return holder ? fmt::format("train with process id {}", *holder) : "another train";
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, std::chrono::milliseconds wait)
    : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_ || lock_until(fd_, std::chrono::steady_clock::now() + wait)) return;
  throw DataError(fmt::format(
      "{}: {} writes there: wait until it has ended, or name another directory by --out",
      directory.string(), holder_text(fd_)));
}

bool lock_until(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline) {
  while (try_lock(fd) == LockOutcome::busy) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

std::optional<pid_t> holder_of_lock(std::string_view locks, dev_t device, std::uint64_t inode) {
  const std::string file = fmt::format("{:02x}:{:02x}:{}", major(device), minor(device), inode);
  std::istringstream lines{std::string(locks)};
  // "12: FLOCK  ADVISORY  WRITE 4711 08:01:131073 0 EOF"; one that waits has an arrow behind the
  // number.
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, place;
    pid_t process = 0;
    if (words >> number >> kind >> mode >> access >> process >> place && kind == "FLOCK" &&
        place == file && process > 0)
      return process;
  }
  return std::nullopt;
}

}  // namespace ddprun::trainer
