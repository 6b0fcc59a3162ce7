// The jobs that bench_restart and bench_node_loss disturb: their launchers, and what their workers
// say of themselves.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bench/restart/event.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {

using Command = std::vector<std::string>;

/// A free port of this machine, which is not kept: the agents of a job must be told the same one
/// beforehand.
inline int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof addr;
  auto* const any = reinterpret_cast<sockaddr*>(&addr);
  if (bind(fd, any, length) != 0 || getsockname(fd, any, &length) != 0) std::abort();
  close(fd);
  return ntohs(addr.sin_port);
}

/// Starts a command with its output discarded. It is not waited for.
inline pid_t start(Command command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  // A shell starts what is in its background without SIGINT, with which jobs are ended here.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ) != 0) std::abort();
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

/// One job, and the FIFO into which its workers write.
class Job {
 public:
  /// `commands`: one for each node.
  Job(std::string name, const std::vector<Command>& commands, const std::string& folder)
      : name_(std::move(name)), fifo_(folder + "/" + name_) {
    if (mkfifo(fifo_.c_str(), 0600) != 0) std::abort();
    input_ = open(fifo_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    setenv("BENCH_RESTART_FIFO", fifo_.c_str(), 1);
    for (const Command& command : commands) launchers_.push_back(start(command));
  }
  ~Job() {
    for (const pid_t pid : launchers_) kill(pid, SIGINT);
    for (const pid_t pid : launchers_) waitpid(pid, nullptr, 0);
    close(input_);
    unlink(fifo_.c_str());
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Until `workers` of a new round run; false after `limit`. The last one's instant is
  /// `started_ns()`.
  bool wait_for_start(int workers, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    started_.assign(static_cast<std::size_t>(workers), WorkerEvent{});
    terminated_ns_ = 0;
    const auto deadline = Clock::now() + limit;
    while (std::any_of(started_.begin(), started_.end(), [](auto& one) { return one.pid == 0; })) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd entry{input_, POLLIN, 0};
      if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0) return false;
      WorkerEvent event;
      while (read(input_, &event, sizeof event) == sizeof event) {
        const auto rank = static_cast<std::size_t>(event.rank);
        if (event.kind == 's' && rank < started_.size()) started_[rank] = event;
        if (event.kind == 't') terminated_ns_ = event.monotonic_ns;
      }
    }
    return true;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t worker(int rank) const {
    return started_[static_cast<std::size_t>(rank)].pid;
  }
  [[nodiscard]] pid_t launcher(std::size_t node) const { return launchers_[node]; }
  [[nodiscard]] std::int64_t started_ns() const {
    std::int64_t last = 0;
    for (const WorkerEvent& one : started_) last = std::max(last, one.monotonic_ns);
    return last;
  }
  /// When a worker got SIGTERM since the last start was waited for; 0: none did.
  [[nodiscard]] std::int64_t terminated_ns() const { return terminated_ns_; }

 private:
  std::string name_;
  std::string fifo_;
  int input_ = -1;
  std::vector<pid_t> launchers_;
  std::vector<WorkerEvent> started_;
  std::int64_t terminated_ns_ = 0;
};

}  // namespace ddprun::bench
