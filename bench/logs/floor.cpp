// The least that must be done to show and keep output: reads the workers' pipes, writes what it
// read to a file for each and to stdout, looks at no byte. Takes the part of ddprun in bench_logs.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/logs/write_all.hpp"

using ddprun::bench::write_all;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

}  // namespace

// WORKERS FOLDER COMMAND...
int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int workers = std::atoi(argv[1]);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<int> pipes;
  std::vector<int> files;
  for (int rank = 0; rank < workers; ++rank) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return 1;
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(fds[1], STDOUT_FILENO);
      setenv("RANK", std::to_string(rank).c_str(), 1);
      execv(argv[3], argv + 3);
      _exit(127);
    }
    close(fds[1]);
    pipes.push_back(fds[0]);
    const std::string path = std::string(argv[2]) + "/" + std::to_string(rank);
    files.push_back(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(rank);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event) != 0) return 1;
  }
  std::vector<char> buffer(kReadBytes);
  for (int open_pipes = workers; open_pipes > 0;) {
    epoll_event events[64];
    const int ready = epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < ready; ++i) {
      const auto rank = static_cast<std::size_t>(events[i].data.u32);
      const ssize_t n = read(pipes[rank], buffer.data(), buffer.size());
      if (n <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, pipes[rank], nullptr);
        --open_pipes;
        continue;
      }
      const auto size = static_cast<std::size_t>(n);
      if (!write_all(files[rank], buffer.data(), size) ||
          !write_all(STDOUT_FILENO, buffer.data(), size))
        return 1;
    }
  }
  while (wait(nullptr) > 0) continue;
}
