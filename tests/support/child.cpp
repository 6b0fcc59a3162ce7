#include "tests/support/child.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/optional.hpp>  // before Boost.Process, which needs it and includes another
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>
#include <boost/process/v2/start_dir.hpp>
#include <boost/process/v2/stdio.hpp>

namespace ddprun::test {

namespace process = boost::process::v2;
using namespace std::chrono_literals;

namespace {

/// Ours, with what the options add and remove.
std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : options.environment)
      replaced = replaced || text.starts_with(name + "=");
    if (!replaced) entries.push_back(text);
  }
  for (const auto& [name, value] : options.environment) {
    if (!value.empty()) entries.push_back(name + "=" + value);
  }
  return entries;
}

/// As a shell finds it. (Boost.Process's own search and environment do not compile in 1.81 without
/// Boost.Filesystem.)
std::string file_of(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder;
       name.find('/') == std::string::npos && std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

/// Says on `err` why, as a shell does, and ends with its code: tests skip where a program is
/// absent.
pid_t start_failing(const std::string& program, const process::error_code& failed, int err) {
  const std::string text = program + ": " + failed.message() + "\n";
  const int code = failed.value() == ENOENT ? 127 : 126;
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    [[maybe_unused]] const auto written = write(err, text.data(), text.size());
    _exit(code);
  }
  return pid;
}

/// Only the start is Boost.Process's: its waits have no deadline (docs/decisions/0006).
pid_t start(const std::vector<std::string>& command, const ChildOptions& options, int in, int out,
            int err) {
  static boost::asio::io_context context;
  const std::vector<std::string> arguments(command.begin() + 1, command.end());
  const std::vector<std::string> environment = environment_of(options);
  process::process_stdio streams{in, out, err};
  if (options.leave_stdin) streams.in.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::vector<const char*> entries;
  for (const std::string& entry : environment) entries.push_back(entry.c_str());
  entries.push_back(nullptr);
  process::posix::default_launcher launcher;
  launcher.env = entries.data();
  process::error_code failed;
  auto child = launcher(
      context.get_executor(), failed, file_of(command.front()), arguments, streams,
      process::process_start_dir(options.directory.empty() ? "." : options.directory.c_str()));
  if (options.leave_stdin) close(streams.in.fd);
  if (!failed) {
    child.detach();
    return launcher.pid;
  }
  if (launcher.pid > 0) waitpid(launcher.pid, nullptr, 0);
  return start_failing(command.front(), failed, err);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const ChildOptions& options)
    : deadline_(std::chrono::steady_clock::now() + options.limit) {
  int in[2];
  int out[2];
  int err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  pid_ = start(command, options, in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
  ::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const auto written = write(in[1], options.input.data(), options.input.size());
  close(in[1]);
}

Child::~Child() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

void Child::signal(int number) const { kill(pid_, number); }

bool Child::read_some(std::chrono::milliseconds limit) {
  pollfd entries[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (out_ < 0 && err_ < 0) return false;
  if (poll(entries, 2, static_cast<int>(limit.count())) <= 0) return true;
  const auto take = [](int& fd, short events, std::string& into) {
    if (fd < 0 || events == 0) return;
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      into.append(buffer, static_cast<std::size_t>(n));
    } else {
      close(fd);
      fd = -1;
    }
  };
  take(out_, entries[0].revents, result_.out);
  take(err_, entries[1].revents, result_.err);
  return true;
}

bool Child::wait_for(const std::function<bool(const std::string&, const std::string&)>& done) {
  while (!done(result_.out, result_.err)) {
    if (std::chrono::steady_clock::now() >= deadline_) return false;
    if (!read_some(20ms)) return done(result_.out, result_.err);
  }
  return true;
}

ChildResult Child::wait() {
  int status = 0;
  while (true) {
    if (!reaped_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      reaped_ = true;
      result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (reaped_) {
      // What it left in the pipes; others may hold them open.
      while ((out_ >= 0 || err_ >= 0)) {
        pollfd entries[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
        if (poll(entries, 2, 0) <= 0) break;
        read_some(0ms);
      }
      return result_;
    }
    if (std::chrono::steady_clock::now() >= deadline_) {
      result_.timed_out = true;
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      reaped_ = true;
      result_.status = 128 + SIGKILL;
      return result_;
    }
    if (!read_some(10ms)) std::this_thread::sleep_for(2ms);
  }
}

ChildResult run(const std::vector<std::string>& command, const ChildOptions& options) {
  return Child(command, options).wait();
}

namespace {

std::string in_folder(const char* variable, const std::string& name) {
  const char* folder = std::getenv(variable);
  if (folder == nullptr)
    throw std::runtime_error(std::string(variable) + " is not set: run the tests through ctest");
  return std::string(folder) + "/" + name;
}

}  // namespace

std::string program(const std::string& name) { return in_folder("DDPRUN_TEST_BIN", name); }
std::string helper(const std::string& name) { return in_folder("DDPRUN_TEST_HELPERS", name); }

// Zombies have no environment and no command line any more, so they are not found.
std::vector<pid_t> processes_showing(const std::string& file, const std::string& text) {
  std::vector<pid_t> found;
  DIR* directory = opendir("/proc");
  while (const dirent* each = readdir(directory)) {
    const pid_t pid = std::atoi(each->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    std::ifstream shown("/proc/" + std::string(each->d_name) + "/" + file, std::ios::binary);
    std::ostringstream bytes;
    bytes << shown.rdbuf();  // of one that has just ended this fails, and an iterator would throw
    if (bytes.str().find(text) != std::string::npos) found.push_back(pid);
  }
  closedir(directory);
  return found;
}

std::vector<pid_t> processes_with(const std::string& entry) {
  return processes_showing("environ", entry + '\0');
}

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  char state = 0;
  pid_t parent = -1;
  if (const auto at = text.rfind(')'); at != std::string::npos) {
    std::istringstream(text.substr(at + 1)) >> state >> parent;
  }
  return parent;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

std::pair<std::string, std::string> no_leak_check() {
  const char* given = std::getenv("ASAN_OPTIONS");
  return {"ASAN_OPTIONS", std::string(given != nullptr ? given : "") + ":detect_leaks=0"};
}

std::string unique_mark() {
  static int next = 0;
  return "mark_" + std::to_string(getpid()) + "_" + std::to_string(next++);
}

}  // namespace ddprun::test
