// spawn, reap and kill_all_children with real processes.
#include "machine/processes/spawn.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "agent/terminal/stream_pair.hpp"
#include "machine/processes/kill_children.hpp"
#include "tests/support/child.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

machine::SpawnRequest request(const std::vector<std::string>& words) {
  machine::SpawnRequest request;
  request.file = words.front();
  request.argv = words;
  request.environment = {"PATH=/usr/bin:/bin", "MARK=spawn"};
  return request;
}

/// Runs to the end and gives what came on stdout.
std::string output_of(machine::SpawnRequest wanted, const machine::UserState& user,
                      ExitStatus* exit = nullptr) {
  auto pipe = agent::make_stream_pipe();
  REQUIRE(pipe.has_value());
  wanted.stdout_fd = pipe->workers.get();
  auto process = machine::spawn(wanted, user);
  REQUIRE(process.has_value());
  pipe->workers.reset();
  std::string text;
  while (true) {
    pollfd entry{pipe->ours.get(), POLLIN, 0};
    REQUIRE(poll(&entry, 1, 10'000) > 0);
    char buffer[4096];
    const ssize_t n = read(pipe->ours.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  std::optional<machine::ReapedProcess> reaped;
  REQUIRE(test::eventually([&] { return (reaped = machine::reap(process->pid)).has_value(); }));
  if (exit != nullptr) *exit = reaped->exit;
  return text;
}

}  // namespace

TEST_CASE("a spawned process has its own session, environment and exit code") {
  const auto user = machine::UserState::take();
  ExitStatus exit;
  const std::string text = output_of(
      request({"/bin/sh", "-c", "ps -o sid= -p $$ | tr -d ' '; echo $$; echo $MARK; exit 5"}), user,
      &exit);
  const auto line = text.find('\n');
  const std::string session = text.substr(0, line);
  CHECK(text == session + "\n" + session + "\nspawn\n");
  CHECK(exit == ExitStatus{false, 5, false});
}

TEST_CASE("a reaped process tells its peak memory and CPU time, with the children it waited for") {
  const auto user = machine::UserState::take();
  // tail keeps what may be the last line: all of it.
  const auto process = machine::spawn(
      request({"/bin/sh", "-c", "head -c 100000000 /dev/zero | tail >/dev/null; exit 3"}), user);
  REQUIRE(process.has_value());
  std::optional<machine::ReapedProcess> reaped;
  REQUIRE(test::eventually([&] { return (reaped = machine::reap(process->pid)).has_value(); }));
  CHECK(reaped->exit == ExitStatus{false, 3, false});
  CHECK(reaped->used.peak_memory_bytes > 100'000'000);
  CHECK(reaped->used.peak_memory_bytes < 100'000'000'000);
  CHECK(reaped->used.cpu_time.count() > 0);
}

TEST_CASE("a program that cannot be executed gives the errno of execve and leaves no child") {
  const auto user = machine::UserState::take();
  CHECK(machine::spawn(request({"/no/such/file"}), user).error().value() == ENOENT);
  CHECK(machine::spawn(request({"/tmp"}), user).error().value() == EACCES);
  CHECK_FALSE(machine::has_children());
}

TEST_CASE("a signal that ends a process is reported as a signal") {
  const auto user = machine::UserState::take();
  ExitStatus exit;
  output_of(request({"/bin/sh", "-c", "kill -9 $$"}), user, &exit);
  CHECK(exit == ExitStatus{true, SIGKILL, false});
}

TEST_CASE("workers get the user's dispositions, mask and limits, not ours") {
  // The user ignores SIGPIPE and nothing else; we ignore more, block all, and raise the limit.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before {};
  sigaction(SIGPIPE, &ignore, &before);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  rlimit low = files;
  low.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &low);
  const auto user = machine::UserState::take();
  setrlimit(RLIMIT_NOFILE, &files);
  sigaction(SIGTTOU, &ignore, nullptr);
  sigset_t all;
  sigset_t mask;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &mask);
  const std::string text = output_of(
      request({"/bin/sh", "-c", "ulimit -n; grep -E '^Sig(Blk|Ign)' /proc/self/status"}), user);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGPIPE, &before, nullptr);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGTTOU, &standard, nullptr);
  CHECK(text == "64\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\n");
}

TEST_CASE("a process runs on the CPUs that it was given and nowhere else") {
  const auto user = machine::UserState::take();
  auto wanted = request({"/bin/grep", "Cpus_allowed_list", "/proc/self/status"});
  const auto allowed = machine::allowed_cpus();
  REQUIRE(allowed.has_value());
  CHECK(output_of(wanted, user) == "Cpus_allowed_list:\t" + machine::format_cpus(*allowed) + "\n");
  for (const int cpu : {allowed->front(), allowed->back()}) {
    wanted.cpus = {cpu};
    CHECK(output_of(wanted, user) == "Cpus_allowed_list:\t" + std::to_string(cpu) + "\n");
  }
  // Ours has stayed as it was.
  CHECK(machine::allowed_cpus().value() == *allowed);
}

TEST_CASE("a process with missing CPUs is not started, and the message gives the reason") {
  const auto user = machine::UserState::take();
  auto wanted = request({"/bin/true"});
  wanted.cpus = {machine::kCpuNumberMax};
  const auto process = machine::spawn(wanted, user);
  REQUIRE(process.has_error());
  CHECK(process.error().value() == EINVAL);
  CHECK(process.error().message().starts_with("its CPUs cannot be set: "));
  CHECK_FALSE(machine::has_children());
}

TEST_CASE("descriptors can be placed in any order") {
  const auto user = machine::UserState::take();
  auto wanted = request({"/bin/sh", "-c", "echo out; echo err >&2"});
  auto pipe = agent::make_stream_pipe();
  REQUIRE(pipe.has_value());
  // stdout's descriptor is numbered as stderr's target and the other way round.
  wanted.stdout_fd = 2;
  wanted.stderr_fd = pipe->workers.get();
  auto process = machine::spawn(wanted, user);
  REQUIRE(process.has_value());
  pipe->workers.reset();
  char buffer[64];
  pollfd entry{pipe->ours.get(), POLLIN, 0};
  REQUIRE(poll(&entry, 1, 10'000) > 0);
  CHECK(std::string(buffer, static_cast<std::size_t>(
                                read(pipe->ours.get(), buffer, sizeof buffer))) == "err\n");
  CHECK(test::eventually([&] { return machine::reap(process->pid).has_value(); }));
}

TEST_CASE("killing all children reaches those that left their session and ignore SIGTERM") {
  // In a process of its own: what is killed is everything below it.
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, nullptr);
    const auto user = machine::UserState::take();
    auto wanted = request({test::helper("job_worker"), "daemon", "daemon", "ignore-term", "print",
                           "ready", "sleep", "60"});
    wanted.environment.push_back("TEST_MARK=kill_all");
    auto pipe = agent::make_stream_pipe();
    wanted.stdout_fd = pipe->workers.get();
    auto process = machine::spawn(wanted, user);
    pollfd entry{pipe->ours.get(), POLLIN, 0};
    poll(&entry, 1, 10'000);
    const auto left = machine::kill_all_children(std::chrono::steady_clock::now() + 10s);
    _exit(left.empty() && !machine::has_children() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  CHECK(test::processes_with("TEST_MARK=kill_all").empty());
}
