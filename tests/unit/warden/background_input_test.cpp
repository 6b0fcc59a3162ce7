// How what is typed reaches the workers of a job that was started in the background.
#include "warden/background_input.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <string>

#include "base/unique_handle.hpp"

using namespace ddprun;
using warden::BackgroundInput;

namespace {

constexpr int kLines = 50;
constexpr int kWaitLimit = 10'000;  // milliseconds

/// In a process with the terminal as its own: moves lines that are typed at once. Gives the step
/// that failed; 0: all lines have come, and no call moved all of them.
int pass_lines_on(int keyboard, const char* terminal_name) {
  setsid();
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  const int terminal = open(terminal_name, O_RDWR);
  if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) != 0 || dup2(terminal, STDIN_FILENO) < 0)
    return 1;
  const pid_t front = fork();
  if (front == 0) {
    int signal = 0;
    sigwait(&signals, &signal);
    _exit(0);
  }
  setpgid(front, front);
  if (tcsetpgrp(terminal, front) != 0) return 2;
  auto input = BackgroundInput::replace_stdin();
  kill(front, SIGKILL);
  waitpid(front, nullptr, 0);
  if (!input || tcsetpgrp(terminal, getpgrp()) != 0) return 3;
  std::string typed;
  for (int line = 0; line < kLines; ++line) typed += "x\n";
  if (write(keyboard, typed.data(), typed.size()) != static_cast<ssize_t>(typed.size())) return 4;
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  int lines = 0;
  while (lines < kLines) {
    pollfd ready = input->ready();
    if (poll(&ready, 1, kWaitLimit) != 1) return 5;
    if (!input->pass_on()) return 6;
    std::array<char, 4096> bytes;
    const ssize_t came = read(STDIN_FILENO, bytes.data(), bytes.size());
    const auto new_lines =
        std::count(bytes.data(), bytes.data() + std::max<ssize_t>(came, 0), '\n');
    if (new_lines > kLines / 2) return 7;
    lines += static_cast<int>(new_lines);
  }
  input->pass_on();  // the last call may not have seen that nothing is left
  pollfd ready = input->ready();
  return poll(&ready, 1, 0) == 0 ? 0 : 8;
}

}  // namespace

TEST_CASE("many lines that are typed at once are passed on some at a time, and none is left") {
  const UniqueFd keyboard(posix_openpt(O_RDWR | O_NOCTTY));
  REQUIRE(keyboard);
  REQUIRE(grantpt(keyboard.get()) == 0);
  REQUIRE(unlockpt(keyboard.get()) == 0);
  const std::string terminal = ptsname(keyboard.get());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(pass_lines_on(keyboard.get(), terminal.c_str()));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
