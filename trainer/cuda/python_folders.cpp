#include "trainer/cuda/python_folders.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "base/unique_handle.hpp"

extern char** environ;

namespace ddprun::trainer::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPythonLimit{5};
constexpr std::size_t kAnswerBytesMax = std::size_t{1} << 16;
constexpr const char* kQuestion = "import sys; print('\\n'.join(sys.path))";

/// Starts it with its output on `out`, and nothing on its other descriptors; -1: it cannot be run.
pid_t start(const char* python, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::array<char*, 4> arguments{const_cast<char*>(python), const_cast<char*>("-c"),
                                 const_cast<char*>(kQuestion), nullptr};
  pid_t child = -1;
  const int failed = posix_spawnp(&child, python, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

/// What comes until the end; false: it did not come in time.
bool read_until(int from, Clock::time_point deadline, std::string& text) {
  while (text.size() < kAnswerBytesMax) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waits{from, POLLIN, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(from, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return false;
}

/// Killed first: it has said all, or is too late.
void end(pid_t child) {
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void add_folders(const std::filesystem::path& packages, std::vector<std::string>& folders) {
  std::error_code failed;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator entry(packages / "nvidia", failed), last;
       !failed && entry != last; entry.increment(failed)) {
    std::error_code absent;
    const auto folder = entry->path() / "lib";
    if (std::filesystem::is_directory(folder, absent)) found.push_back(folder.string());
  }
  std::sort(found.begin(), found.end());
  folders.insert(folders.end(), found.begin(), found.end());
}

}  // namespace

std::vector<std::string> python_package_folders(const char* python,
                                                std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  const UniqueFd reading(pipe[0]);
  UniqueFd writing(pipe[1]);
  const pid_t child = start(python, writing.get());
  writing.reset();
  if (child < 0) return {};
  std::string answer;
  const bool answered = read_until(reading.get(), deadline, answer);
  end(child);
  std::vector<std::string> folders;
  if (!answered) return folders;
  for (std::string_view rest = answer; !rest.empty();) {
    const std::size_t line = std::min(rest.find('\n'), rest.size());
    if (line > 0) add_folders(std::filesystem::path(rest.substr(0, line)), folders);
    rest.remove_prefix(std::min(line + 1, rest.size()));
  }
  return folders;
}

std::vector<std::string> python_package_folders() {
  static const std::vector<std::string> folders = python_package_folders("python3", kPythonLimit);
  return folders;
}

}  // namespace ddprun::trainer::cuda
