// A program under a terminal that the test types on and reads.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/support/child.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

/// A program under a terminal of its own, as from an interactive shell without job control of its
/// own.
class OnTerminal {
 public:
  OnTerminal(const std::vector<std::string>& command, const std::string& mark) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = forkpty(&master_, nullptr, nullptr, nullptr);
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      setenv("TEST_MARK", mark.c_str(), 1);
      setenv("OMP_NUM_THREADS", "1", 1);
      setenv("NO_COLOR", "1", 1);
      execvp(argv[0], argv.data());
      _exit(127);
    }
  }
  ~OnTerminal() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(master_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) const {
    REQUIRE(write(master_, keys.data(), keys.size()) > 0);
  }
  /// In what is shown from this place on.
  bool wait_for(const std::string& text, std::chrono::milliseconds limit = 10s,
                std::size_t from = 0) {
    return eventually(
        [&] {
          read_some();
          return shown.find(text, from) != std::string::npos;
        },
        limit);
  }
  /// Exit code, 128 + signal, or -1 after the limit.
  int wait() {
    int status = 0;
    const bool done = eventually(
        [&] {
          read_some();
          return waitpid(pid_, &status, WNOHANG) == pid_;
        },
        20s);
    if (!done) return -1;
    ended_ = true;
    read_some();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void resize(unsigned short rows, unsigned short columns) const {
    const winsize size{rows, columns, 0, 0};
    REQUIRE(ioctl(master_, TIOCSWINSZ, &size) == 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  std::string shown;

 private:
  void read_some() {
    pollfd entry{master_, POLLIN, 0};
    char buffer[4096];
    while (poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0) {
      const ssize_t n = read(master_, buffer, sizeof buffer);
      if (n <= 0) return;
      shown.append(buffer, static_cast<std::size_t>(n));
    }
  }
  int master_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace ddprun::test
