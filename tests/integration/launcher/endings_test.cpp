// Jobs end, and leave nothing, in odd surroundings: readers that have stopped, ignored SIGCHLD,
// threads that outlive their first one, cgroups within cgroups, orphaned terminals.
#include <fcntl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// A program with an unread pipe as stdout and stderr. Killed at the end.
class Unread {
 public:
  Unread(const std::vector<std::string>& command, const test::ChildOptions& options) {
    REQUIRE(pipe2(pipe_, O_CLOEXEC) == 0);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
      dup2(pipe_[1], 1);
      dup2(pipe_[1], 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Unread() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(pipe_[0]);
    close(pipe_[1]);
  }
  Unread(const Unread&) = delete;
  Unread& operator=(const Unread&) = delete;

  void signal(int number) const { kill(pid_, number); }
  /// Its exit code; -1: it did not end in time.
  int wait() {
    int status = 0;
    ended_ = test::eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, 30s);
    return ended_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int pipe_[2];
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// An unread terminal, which takes no more than it has room for.
class UnreadTerminal {
 public:
  UnreadTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    REQUIRE(master_ >= 0);
    REQUIRE(grantpt(master_) == 0);
    REQUIRE(unlockpt(master_) == 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(slave_ >= 0);
    termios settings{};
    tcgetattr(slave_, &settings);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    tcsetattr(slave_, TCSANOW, &settings);
  }
  ~UnreadTerminal() {
    close(slave_);
    close(master_);
  }
  UnreadTerminal(const UnreadTerminal&) = delete;
  UnreadTerminal& operator=(const UnreadTerminal&) = delete;

  /// Its room is known from one like it.
  void fill_but(int room) {
    const UnreadTerminal other;
    write_to(slave_, write_to(other.slave_, 1 << 20) - room);
  }

  pid_t start(const std::vector<std::string>& command, const test::ChildOptions& options) const {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(slave_, 1);
    dup2(slave_, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }

 private:
  /// Gives how many bytes it took.
  static int write_to(int slave, int bytes) {
    const int flags = fcntl(slave, F_GETFL);
    fcntl(slave, F_SETFL, flags | O_NONBLOCK);
    int done = 0;
    const auto one_more = [&] {
      const std::string text(static_cast<std::size_t>(std::min(64, bytes - done)), 'x');
      const ssize_t n = write(slave, text.data(), text.size());
      if (n > 0) done += static_cast<int>(n);
      return n > 0;
    };
    // The kernel moves bytes from one buffer to the next behind our back.
    while (done < bytes && test::eventually(one_more, 100ms)) {
    }
    fcntl(slave, F_SETFL, flags);
    return done;
  }

  int master_;
  int slave_ = -1;
};

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool python_here() { return test::run({"python3", "-c", ""}).status == 0; }

std::vector<std::string> with_python(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), test::program("ddprun"));
  for (const std::string& word :
       {std::string("--no-python"), std::string("python3"), std::string("-c"), script})
    options.push_back(word);
  return options;
}

}  // namespace

TEST_CASE("a reader that has stopped keeps no failed job from ending") {
  test::Job job;
  Unread unread(
      test::Job::command({"--nproc-per-node=2", "--grace-period=0.2", "--log-policy=drop"},
                         {"flood", "300000", "exit", "3"}),
      job.settings());
  CHECK(unread.wait() == 3);
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("a reader that has stopped keeps no stopped worker from being killed") {
  test::Job job;
  Unread unread(test::Job::command({"--grace-period=0.2", "--kill-timeout=0.5"},
                                   {"ignore-term", "flood", "300000", "sleep", "60"}),
                job.settings());
  REQUIRE(test::eventually([&] { return test::processes_with(job.mark_entry()).size() == 3; }));
  unread.signal(SIGTERM);
  CHECK(unread.wait() == 128 + SIGTERM);
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("an unread terminal changes no exit code, however full it is") {
  // Room for some of the report only.
  for (const int room : {1500, 3000}) {
    CAPTURE(room);
    test::TempDir directory;
    UnreadTerminal terminal;
    terminal.fill_but(room);
    test::Job job;
    const std::string error = (directory.path() / "error.json").string();
    std::ofstream file(error);
    file << R"({"message": {"message": "boom", "extraInfo": {"py_callstack": ")";
    for (int line = 0; line < 200; ++line) file << std::string(390, 'l') << "\\n";
    file << R"("}}})";
    file.close();
    const pid_t pid = terminal.start(
        {test::program("ddprun"), "--kill-timeout=1", "--grace-period=1", "--no-python", "/bin/sh",
         "-c", "cp " + error + " $TORCHELASTIC_ERROR_FILE; exit 3"},
        job.settings());
    int status = 0;
    const bool ended = test::eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }, 30s);
    if (!ended) kill(pid, SIGKILL);
    REQUIRE(ended);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 3);
  }
}

TEST_CASE("jobs end where SIGCHLD was ignored before") {
  test::Job job;
  std::string line = "trap '' CHLD; exec";
  for (const std::string& word : test::Job::command({"--nproc-per-node=2"}, {"print", "hello"}))
    line += " " + word;
  const auto result = test::run({"/bin/bash", "-c", line}, job.settings());
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 0);
}

TEST_CASE("a process without its first thread does not survive") {
  if (!python_here()) test::skip("no python3");
  // A child in a session of its own; its first thread ends by the bare system call.
  const std::string script =
      "import os, threading, time, ctypes, platform\n"
      "exit_thread = 60 if platform.machine() == 'x86_64' else 93\n"
      "if os.fork() == 0:\n"
      "    os.setsid()\n"
      "    threading.Thread(target=lambda: time.sleep(60)).start()\n"
      "    ctypes.CDLL(None).syscall(exit_thread, 0)\n"
      "time.sleep(0.3)\n";
  for (const std::string level : {"tree", "cgroup", "pidns"}) {
    CAPTURE(level);
    test::Job job;
    auto settings = job.settings();
    settings.environment.push_back(test::no_leak_check());
    const auto result =
        test::run(with_python({"--contain=" + level, "--grace-period=0.2"}, script), settings);
    if (result.status == 2) test::skip("no --contain=" + level + " here: " + result.err);
    CHECK(result.status == 0);
    CHECK(test::run({"/bin/sh", "-c",
                     "grep -lz '^" + job.mark_entry() +
                         "$' /proc/[0-9]*/task/[0-9]*/environ "
                         "2>/dev/null | head -n 1"})
              .out.empty());
  }
}

TEST_CASE("processes that a failed worker leaves have a moment to clean up") {
  test::TempDir directory;
  const std::string ready = (directory.path() / "ready").string();
  const std::string done = (directory.path() / "done").string();
  test::Job job;
  auto settings = job.settings();
  // As Python's resource tracker: deaf to SIGTERM, it cleans up when the worker has ended.
  const auto result =
      test::run({test::program("ddprun"), "--no-python", "--nproc-per-node=1", "/bin/sh", "-c",
                 "sh -c \"trap '' TERM INT; echo > " + ready + "; sleep 0.01; echo clean > " +
                     done + "\" & while [ ! -e " + ready + " ]; do sleep 0.01; done; exit 3"},
                settings);
  CHECK(result.status == 3);
  CHECK(std::filesystem::exists(done));
  CHECK(test::processes_with(job.mark_entry()).empty());
}

TEST_CASE("a cgroup in which workers have made others is removed") {
  const std::string tried = "--contain=cgroup";
  const auto possible = test::run({test::program("ddprun"), tried, "--no-python", "/bin/true"});
  if (possible.status != 0) test::skip("no --contain=cgroup here: " + possible.err);
  const auto result = test::run({test::program("ddprun"), tried, "--no-python", "/bin/sh", "-c",
                                 "for m in /sys/fs/cgroup /sys/fs/cgroup/unified; do"
                                 "  d=$m$(sed -n 's/^0:://p' /proc/self/cgroup);"
                                 "  [ -e $d/cgroup.kill ] && mkdir -p $d/a/b && echo $d; done"});
  CHECK(result.status == 0);
  std::string folder = result.out.substr(0, result.out.find('\n'));
  REQUIRE_FALSE(folder.empty());
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a stop without a process to undo it does not freeze the job") {
  // A session of its own without a terminal: an orphaned process group, which the kernel never
  // stops.
  test::Job job;
  std::vector<std::string> command{"setsid", "--wait"};
  for (const std::string& word : test::Job::command(
           {"--nproc-per-node=2"}, {"print", "here", "sleep", "0.5", "print", "end"}))
    command.push_back(word);
  test::Child child(command, job.settings());
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  for (const pid_t pid : test::processes_with(job.mark_entry())) {
    if (name_of(pid) == "ddprun") kill(pid, SIGTSTP);
  }
  const auto result = child.wait();
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 0);
  CHECK(result.out.find("[rank0] end") != std::string::npos);
}

TEST_CASE("an init of a namespace reaps the orphans that it adopts") {
  const std::vector<std::string> isolated{"unshare", "--fork", "--pid", "--map-root-user",
                                          "--mount-proc"};
  auto probe = isolated;
  probe.push_back("/bin/true");
  if (test::run(probe).status != 0)
    test::skip("unshare(1) with a PID namespace is not allowed here");
  test::Job job;
  auto command = isolated;
  for (const std::string& word : test::Job::command({}, {"print", "here", "sleep", "60"}))
    command.push_back(word);
  auto settings = job.settings();
  settings.environment.push_back(test::no_leak_check());
  test::Child child(command, settings);
  REQUIRE(child.wait_for_output("here"));
  pid_t warden = -1;  // it gets its name beside the worker's start
  REQUIRE(test::eventually([&] {
    for (const pid_t pid : test::processes_with(job.mark_entry())) {
      if (name_of(pid) == "ddprun") warden = pid;
    }
    return warden > 0;
  }));
  // As `docker exec` does: a process that comes into the namespace and leaves another behind.
  const auto visit = test::run({"nsenter", "--target", std::to_string(warden), "--pid", "--mount",
                                "--user", "/bin/sh", "-c", "(sleep 0.05 & echo $!)"});
  if (visit.status != 0) test::skip("no nsenter(1) here: " + visit.err);
  const auto zombies = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid > 0 && test::parent_of(pid) == warden && name_of(pid) == "sleep") ++count;
    }
    return count;
  };
  CHECK(test::eventually([&] { return zombies() == 0; }, 5s));
  kill(warden, SIGTERM);
  child.wait();
}

TEST_CASE("a worker that dies while it is traced has died when its tracer lets it go") {
  test::Job job;
  const auto result = job.run({"--nproc-per-node=2", "--grace-period=1", "--kill-timeout=1"},
                              {"rank", "0", "held", "0.3", "kill", "9"});
  if (result.status == 77) test::skip("a process may not trace its parent here");
  CAPTURE(result.err);
  CHECK(result.status == 137);
  CHECK(result.err.find("culprit: rank 0") != std::string::npos);
  CHECK(result.err.find("killed by SIGKILL") != std::string::npos);
}
