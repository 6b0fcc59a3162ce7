// A child with pipes: what it is sent and prints, and what an end leaves behind.
#include "machine/programs/child_program.hpp"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr const char* kShell = "/bin/sh";

/// More than a pipe holds.
std::string much() { return std::string(1 << 20, 'm'); }

/// A shell that runs `script`, whose input and output are ours.
struct Shell {
  Shell() { make(); }
  void make() {
    child = std::make_unique<machine::ChildProgram>(
        context, user, machine::ChildProgram::Settings{.has_input = true},
        machine::ChildProgram::Events{.output = [this](std::string_view bytes) { output += bytes; },
                                      .errors = {},
                                      .ended = [this](const ExitStatus& status) { exit = status; },
                                      .is_full = {}});
  }
  void start(const std::string& script) {
    REQUIRE_FALSE(child->start(kShell, {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}));
  }
  /// Handlers run until the child's end was told, or for ten seconds.
  void wait() {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (!exit && std::chrono::steady_clock::now() < limit) {
      context.restart();
      context.run_for(2ms);
      child->look_for_exit();
    }
    REQUIRE(exit);
  }

  boost::asio::io_context context;
  const machine::UserState user = machine::UserState::take();
  std::unique_ptr<machine::ChildProgram> child;
  std::string output;
  std::optional<ExitStatus> exit;
};

}  // namespace

TEST_CASE("a child program reads what it is sent up to the end of its input") {
  Shell shell;
  shell.start("cat; echo end; exit 3");
  shell.child->send("one ");
  shell.child->send("two ");
  shell.child->close_input();
  shell.wait();
  CHECK(shell.output == "one two end\n");
  CHECK(shell.exit->value == 3);
}

TEST_CASE("a child program that is given up with input on its way leaves no handler behind") {
  Shell shell;
  shell.start("exec sleep 1000");
  shell.child->send(much());
  shell.context.run_for(1ms);  // the pipe is full: the rest waits
  const pid_t pid = shell.child->pid();
  shell.child.reset();
  shell.context.restart();
  shell.context.poll();
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("a child program that is given up tells nothing of an end that was on its way") {
  Shell shell;
  shell.start("exit 0");
  shell.child->close_input();
  const auto limit = std::chrono::steady_clock::now() + 10s;
  while (!shell.child->look_for_exit() && std::chrono::steady_clock::now() < limit) {
  }
  shell.child.reset();
  shell.context.poll();
  CHECK_FALSE(shell.exit);
}

TEST_CASE("a child program that is started again gets nothing of the input before") {
  Shell shell;
  shell.start("exec sleep 1000");
  shell.child->send(much());
  shell.child->close_input();
  shell.context.run_for(1ms);
  const pid_t first = shell.child->pid();
  shell.child->stop();
  REQUIRE(waitpid(first, nullptr, 0) == first);
  shell.start("exec cat");
  shell.child->send("again");
  shell.child->close_input();
  shell.wait();
  CHECK(shell.output == "again");
  CHECK(shell.exit->value == 0);
}
